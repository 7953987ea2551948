// SPDX-License-Identifier: MIT
#include "base/forks.hpp"

#include <pthread.h>

#include <atomic>

namespace hbmwire {

namespace {

// Written in the child, where no other thread is yet.
std::atomic<unsigned> count{0};

// Before anything that asks can have been made.
[[maybe_unused]] const bool kTold =
    ::pthread_atfork(nullptr, nullptr, [] {
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }) == 0;

}  // namespace

unsigned forks() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace hbmwire
