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
  // Longer than a running holder keeps most locks, but short for a thread that polls while its
  // request waits for a stopped process. Later looks at the holder are less frequent.
  constexpr std::uint64_t kFirstLookNs = 50'000;
  constexpr std::uint64_t kLookNs = 1'000'000;
  // A copy of 2 GiB takes 1 s to 2 s. A holder that is frozen in another way (cgroups) does not
  // look stopped, so there is a limit.
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
