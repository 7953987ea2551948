// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// The last `kSlots` ranges that somebody told of, each with a number, for whoever wants to know.
/// One thread pushes and waits for nobody; any others look, each from where it was before, and
/// learn when that is too long ago. Nothing allocates, nothing locks.
template <std::size_t kSlots>
class EventRing {
 public:
  struct Event {
    AddressRange range;
    std::uint64_t detail = 0;  ///< what the range does not say
  };

  /// For one thread.
  void push(const Event& event) noexcept {
    const std::uint64_t index = end_.load(std::memory_order_relaxed);
    // Before the slot is written, and released with each of its words: who reads one of them finds
    // in begun_ that the slot has another event now.
    begun_.store(index + 1, std::memory_order_relaxed);
    Slot& slot = slots_[index % kSlots];
    slot.begin.store(event.range.begin, std::memory_order_release);
    slot.end.store(event.range.end, std::memory_order_release);
    slot.detail.store(event.detail, std::memory_order_release);
    end_.store(index + 1, std::memory_order_release);
  }

  /// How many were pushed so far: the index of the next one.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_.load(std::memory_order_acquire); }

  /// The event of this index, which is less than an end() that was seen; nothing if a later one has
  /// taken its slot.
  [[nodiscard]] std::optional<Event> at(std::uint64_t index) const noexcept {
    const Slot& slot = slots_[index % kSlots];
    const Event event{
        {slot.begin.load(std::memory_order_acquire), slot.end.load(std::memory_order_acquire)},
        slot.detail.load(std::memory_order_acquire)};
    if (begun_.load(std::memory_order_relaxed) - index > kSlots) return std::nullopt;
    return event;
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> begin{0};
    std::atomic<std::uint64_t> end{0};
    std::atomic<std::uint64_t> detail{0};
  };

  std::array<Slot, kSlots> slots_;
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> end_{0};
};

}  // namespace hbmwire::memory::host
