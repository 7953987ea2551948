// SPDX-License-Identifier: MIT
#include "base/forks.hpp"

#include <pthread.h>

namespace hbmwire {

namespace detail {
std::atomic<unsigned> fork_count{0};
}

namespace {

// Runs in the child, which has no other thread yet.
void count_fork() { detail::fork_count.fetch_add(1, std::memory_order_relaxed); }

// Registered when the library is loaded, before any caller of forks() can exist.
[[maybe_unused]] const bool kCountsForks = ::pthread_atfork(nullptr, nullptr, count_fork) == 0;

}  // namespace

}  // namespace hbmwire
