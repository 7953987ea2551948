// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "hbmwire/nic.hpp"

namespace hbmwire::detail {

/// Counts one thread's leases on one cached region. Its thread counts up and down with plain
/// stores, so that a hit needs no locked instruction. Other threads that give back a lease count
/// separately (ReferenceRest).
///
/// A thread that forgets a region marks its references as forgotten, executes a heavy fence, and
/// then adds up the counts. The owning thread counts, executes a light fence, and then looks at the
/// state. So at least one of the two sees the other. Where light fences cost something, references
/// are marked kAsked, and only uses of such references execute the fence.
///
/// References are freed only with their cache. An address cache may therefore point to a reference
/// that serves another region by now, so a reference holds the range that it covers. Parts
/// that few hits need are elsewhere (ReferenceRest): the smaller a reference is, the more of them
/// fit in the CPU's caches.
struct alignas(16) RegistrationReference {
  // `state` holds marks, an Access, and the number of bytes of the region that covers() accepts:
  // all of them, or as many as fit in the bits.
  static constexpr std::uint32_t kUsed = 1U << 0U;       // since eviction last cleared it
  static constexpr std::uint32_t kForgotten = 1U << 1U;  // not to be found; give it back
  static constexpr std::uint32_t kAsked = 1U << 2U;      // each use must call keep()
  static constexpr unsigned kAccessShift = 3;
  static constexpr unsigned kReachShift = 8;
  static constexpr std::uint32_t kMostReach = ~std::uint32_t{0} >> kReachShift;

  std::uint64_t begin = 0;              // only its own thread reads it
  std::atomic<std::uint32_t> count{0};  // only its own thread stores it
  std::atomic<std::uint32_t> state{kForgotten};

  [[nodiscard]] static std::uint32_t state_of(Access access, std::uint64_t size_bytes,
                                              std::uint32_t marks) noexcept {
    const std::uint64_t reach = std::min<std::uint64_t>(size_bytes, kMostReach);
    return shifted(access) | marks | (static_cast<std::uint32_t>(reach) << kReachShift);
  }

  /// False proves nothing about a region larger than kMostReach. An empty range is never covered,
  /// nor one that wraps.
  [[nodiscard]] bool covers(std::uint64_t address, std::uint64_t length_bytes) const noexcept {
    const std::uint64_t reach = state.load(std::memory_order_relaxed) >> kReachShift;
    const std::uint64_t offset = address - begin;
    return offset < reach && length_bytes - 1 < reach - offset;
  }

  /// Whether the region can be used at once: it has this access, is not forgotten, needs no
  /// question, and is already marked as used.
  [[nodiscard]] bool is_open(Access access) const noexcept {
    // The lowest byte holds the marks and the Access. An `access` with bits that no Access has does
    // not fit in a byte, and so is unequal.
    return static_cast<std::uint8_t>(state.load(std::memory_order_acquire)) ==
           shifted(access) + kUsed;
  }

  [[nodiscard]] bool has(std::uint32_t mark) const noexcept {
    return (state.load(std::memory_order_acquire) & mark) != 0;
  }

  [[nodiscard]] Access access() const noexcept {
    const auto low = static_cast<std::uint8_t>(state.load(std::memory_order_relaxed));
    return static_cast<Access>(low >> kAccessShift);
  }

  void mark(std::uint32_t mark) noexcept { state.fetch_or(mark, std::memory_order_relaxed); }

  void unmark(std::uint32_t mark) noexcept { state.fetch_and(~mark, std::memory_order_relaxed); }

  // A load and a store, not an atomic addition: only the owning thread changes the count.
  void add() noexcept {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void take_away() noexcept {
    count.store(count.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }

 private:
  [[nodiscard]] static std::uint32_t shifted(Access access) noexcept {
    return static_cast<std::uint32_t>(access) << kAccessShift;
  }
};

static_assert(sizeof(RegistrationReference) == 16, "a hit reads a quarter of a cache line of it");
static_assert(static_cast<std::uint32_t>(kAllAccess) << RegistrationReference::kAccessShift <
              1U << RegistrationReference::kReachShift);

}  // namespace hbmwire::detail
