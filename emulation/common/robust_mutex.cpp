// SPDX-License-Identifier: MIT
#include "emulation/common/robust_mutex.hpp"

#include <atomic>

#include "emulation/common/stopped.hpp"

namespace hbmwire::emulation {

namespace {

std::atomic<std::uint64_t> g_not_had{0};

}  // namespace

std::uint64_t locks_not_had() noexcept { return g_not_had.load(std::memory_order_relaxed); }

RobustMutex::Taken RobustMutex::lock_slowly() noexcept {
  // Longer than a running holder keeps most locks, and short for who polls while its request waits
  // for a stopped one; then a look at the holder now and then.
  constexpr std::uint64_t kFirstLookNs = 50'000;
  constexpr std::uint64_t kLookNs = 1'000'000;
  // A copy of 2 GiB takes a second or two. Who is frozen otherwise (cgroups) does not look stopped.
  constexpr int kLooks = 10'000;
  for (int look = 0; look < kLooks; ++look) {
    const Taken taken = word_.lock_for(look == 0 ? kFirstLookNs : kLookNs);
    if (taken != Taken::no) return taken;
    if (is_stopped(word_.holder())) break;
  }
  g_not_had.fetch_add(1, std::memory_order_relaxed);
  return Taken::no;
}

}  // namespace hbmwire::emulation
