// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

// Arrays of slots in memory that processes share. When a slot is taken, `live` is stored last; when
// it is freed, `live` is the only store. So a process that is killed half way leaves the slots
// consistent. The owner's lock is held.
namespace hbmwire::emulation {

/// A free slot of an array, or nullptr.
template <typename Slots>
auto* free_slot(Slots& slots) {
  for (auto& slot : slots) {
    if (slot.live == 0) return &slot;
  }
  return static_cast<typename Slots::pointer>(nullptr);
}

template <typename Slot>
void take(Slot& slot) {
  std::atomic_ref(slot.live).store(1, std::memory_order_release);
}

template <typename Slot>
void give_back(Slot& slot) {
  std::atomic_ref(slot.live).store(0, std::memory_order_release);
}

/// The number of slots that are taken.
template <typename Slots>
std::uint64_t count_live(const Slots& slots) {
  std::uint64_t count = 0;
  for (const auto& slot : slots) count += slot.live != 0 ? 1 : 0;
  return count;
}

}  // namespace hbmwire::emulation
