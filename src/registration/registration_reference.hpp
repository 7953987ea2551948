// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "hbmwire/nic.hpp"

namespace hbmwire::detail {

/// One thread's uses of one cached region. The thread counts up and down by plain stores, so that a
/// hit has no locked instruction in it; other threads that give a lease back count by themselves
/// (ReferenceRest). The thread that forgets a region marks its references as forgotten, has a heavy
/// fence, and then adds up; the thread counts, has a light fence, and then looks at the state: one
/// of the two sees the other. Where light fences are not light, references are marked kAsked, and
/// have them only then.
///
/// References are never freed before their cache, so that an address cache may point to one that is
/// another region's by now: what it covers stands in the reference itself. The part that most hits
/// do not touch is elsewhere (ReferenceBlock): the smaller this is, the more of them are in the
/// CPU's caches.
struct alignas(16) RegistrationReference {
  // `state` is marks, an Access, and how many bytes of the region are covered at first sight: all
  // of them, or as many as there is room for.
  static constexpr std::uint32_t kUsed = 1U << 0U;       // since eviction last took this mark
  static constexpr std::uint32_t kForgotten = 1U << 1U;  // not to be used anew, to be given back
  static constexpr std::uint32_t kAsked = 1U << 2U;      // to be looked at closer at each use
  static constexpr unsigned kAccessShift = 3;
  static constexpr unsigned kReachShift = 8;
  static constexpr std::uint32_t kMostReach = ~std::uint32_t{0} >> kReachShift;

  std::uint64_t begin = 0;              // of its thread alone
  std::atomic<std::uint32_t> count{0};  // stored by its thread alone
  std::atomic<std::uint32_t> state{kForgotten};

  [[nodiscard]] static std::uint32_t state_of(Access access, std::uint64_t size_bytes,
                                              std::uint32_t marks) noexcept {
    const std::uint64_t reach = std::min<std::uint64_t>(size_bytes, kMostReach);
    return shifted(access) | marks | (static_cast<std::uint32_t>(reach) << kReachShift);
  }

  /// False says nothing of a region whose size is not within kMostReach. A length of 0 is covered
  /// by nothing, nor is a range that wraps.
  [[nodiscard]] bool covers(std::uint64_t address, std::uint64_t length_bytes) const noexcept {
    const std::uint64_t reach = state.load(std::memory_order_relaxed) >> kReachShift;
    const std::uint64_t offset = address - begin;
    return offset < reach && length_bytes - 1 < reach - offset;
  }

  /// A region that is found, of this access, with nothing to be asked and nothing to be noted.
  [[nodiscard]] bool is_open(Access access) const noexcept {
    // Bits that no access has are above those that are compared, and so make it unequal.
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
