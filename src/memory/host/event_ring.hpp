// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// The last `kSlots` ranges that were pushed, each with a number. One thread pushes, and never
/// waits. Any number of threads read, each from its own place on, and find out if that place was
/// overwritten. Neither allocates nor locks.
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
    // Stored before the slot is written. Each store to the slot releases it, so a thread that
    // reads any new word of the slot also sees in begun_ that the slot was reused.
    begun_.store(index + 1, std::memory_order_relaxed);
    Slot& slot = slots_[index % kSlots];
    slot.begin.store(event.range.begin, std::memory_order_release);
    slot.end.store(event.range.end, std::memory_order_release);
    slot.detail.store(event.detail, std::memory_order_release);
    end_.store(index + 1, std::memory_order_release);
  }

  /// The number of events so far, which is the index of the next one.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_.load(std::memory_order_acquire); }

  /// The event with this index, which must be less than a returned end(). No value if a later event
  /// has taken its slot.
  [[nodiscard]] std::optional<Event> at(std::uint64_t index) const noexcept {
    const Slot& slot = slots_[index % kSlots];
    const Event event{
        {slot.begin.load(std::memory_order_acquire), slot.end.load(std::memory_order_acquire)},
        slot.detail.load(std::memory_order_acquire)};
    // Read after the slot: whether the push that reuses the slot had begun.
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
