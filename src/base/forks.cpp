// SPDX-License-Identifier: MIT
#include "base/forks.hpp"

#include <pthread.h>

namespace hbmwire {

namespace detail {
std::atomic<unsigned> fork_count{0};
}

namespace {

// In the child, where no other thread is yet.
void count_fork() { detail::fork_count.fetch_add(1, std::memory_order_relaxed); }

// Before anything that asks can have been made.
[[maybe_unused]] const bool kCountsForks = ::pthread_atfork(nullptr, nullptr, count_fork) == 0;

}  // namespace

}  // namespace hbmwire
