// SPDX-License-Identifier: MIT
#include "base/incarnation.hpp"

#include <pthread.h>

#include <atomic>

#include "base/random.hpp"

namespace hbmwire {

namespace {

std::atomic<std::uint64_t> drawn{0};

// Registered before any number can have been drawn. The child has no other thread yet.
[[maybe_unused]] const bool kChangesInChildren =
    ::pthread_atfork(nullptr, nullptr, [] { drawn.store(0, std::memory_order_relaxed); }) == 0;

}  // namespace

std::uint64_t incarnation() noexcept {
  std::uint64_t known = drawn.load(std::memory_order_relaxed);
  while (known == 0) {
    const std::uint64_t fresh = random_number();
    // If several threads draw one, the first number counts.
    if (drawn.compare_exchange_strong(known, fresh, std::memory_order_relaxed)) known = fresh;
  }
  return known;
}

}  // namespace hbmwire
