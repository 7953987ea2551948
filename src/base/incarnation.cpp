// SPDX-License-Identifier: MIT
#include "base/incarnation.hpp"

#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <random>

namespace hbmwire {

namespace {

std::atomic<std::uint64_t> drawn{0};

// Before anything can have been drawn. In the child no other thread is yet.
[[maybe_unused]] const bool kTold =
    ::pthread_atfork(nullptr, nullptr, [] { drawn.store(0, std::memory_order_relaxed); }) == 0;

std::uint64_t draw() {
  std::uint64_t value = 0;
  // Fails only on kernels without getrandom; then the standard library's source will do.
  if (::getrandom(&value, sizeof value, 0) != sizeof value) {
    std::random_device source;
    value = std::uint64_t{source()} << 32U | source();
  }
  return value;
}

}  // namespace

std::uint64_t incarnation() noexcept {
  std::uint64_t known = drawn.load(std::memory_order_relaxed);
  while (known == 0) {
    const std::uint64_t fresh = draw();
    // Of several threads the first one's counts.
    if (drawn.compare_exchange_strong(known, fresh, std::memory_order_relaxed)) known = fresh;
  }
  return known;
}

}  // namespace hbmwire
