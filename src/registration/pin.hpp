// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "hbmwire/nic.hpp"

namespace hbmwire::detail {

struct CachedRegion;
struct ThreadView;

/// One thread's uses of one cached region. The thread counts up and down by plain stores, so that a
/// hit has no locked instruction in it; other threads that give a lease back count in `elsewhere`.
/// Who forgets a region says so in `doomed`, has a heavy fence, and then adds up; the thread
/// counts, has a light fence, and then looks at `doomed`: one of the two sees the other.
///
/// Pins are never freed before their cache, so that a memo may point to one that is another
/// region's by now: what it covers stands in the pin itself.
struct alignas(64) Pin {
  std::atomic<std::uint32_t> count{0};      // stored by its thread alone
  std::atomic<std::uint32_t> elsewhere{0};  // leases of `count` that other threads have given back
  std::atomic<bool> doomed{true};  // not to be used anew; who gives back has to look closer
  Access access = Access::none;    // this, the next and the range: of its thread alone
  bool strict = false;             // RegistrationOptions::Watch::strict
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::atomic<std::uint64_t> last_used{0};  // RegionCache's clock
  CachedRegion* entry = nullptr;  // null: free; by the cache's lock, or while it is in use
  ThreadView* view = nullptr;
  std::uint64_t view_id = 0;  // tells it from others that had its place in memory

  [[nodiscard]] bool covers(std::uint64_t address, std::uint64_t length_bytes,
                            Access wanted) const noexcept {
    // A length of 0 wraps, and is covered by nothing.
    return address >= begin && address < end && length_bytes - 1 < end - address &&
           access == wanted;
  }

  /// How many leases there are; exact after a heavy fence, or by the cache's lock once doomed.
  [[nodiscard]] std::uint32_t in_use() const noexcept {
    const std::uint32_t given_back = elsewhere.load(std::memory_order_acquire);
    return count.load(std::memory_order_acquire) - given_back;
  }

  void add() noexcept {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void take_away() noexcept {
    count.store(count.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }
};

static_assert(sizeof(Pin) == 64, "a hit reads one cache line of it");

}  // namespace hbmwire::detail
