// SPDX-License-Identifier: MIT
#include "registration/memo.hpp"

#include <utility>

namespace hbmwire::detail {

void Memo::remember(std::uint64_t address, Pin* pin) {
  auto& slots = buckets_[index_of(address)].slots;
  Slot* chosen = nullptr;
  for (Slot& slot : slots) {
    const bool free = slot.pin == nullptr || slot.pin->doomed.load(std::memory_order_relaxed);
    const bool same = slot.address == address && !free && slot.pin->access == pin->access;
    if (same || (free && chosen == nullptr)) chosen = &slot;
    if (same) break;
  }
  if (chosen == nullptr) chosen = &slots.at(next_way_++ % kWays);
  *chosen = Slot{.address = address, .pin = pin};
}

void Memo::make_room_for(std::size_t addresses) {
  // Three addresses to two buckets of four: one in fifty finds its bucket full.
  std::size_t wanted = buckets_.size();
  while (wanted * 3 < addresses * 2) wanted *= 2;
  if (wanted == buckets_.size()) return;
  const auto old = std::exchange(buckets_, std::vector<Bucket>(wanted));
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(wanted));
  for (const Bucket& bucket : old) {
    for (const Slot& slot : bucket.slots) {
      if (slot.pin != nullptr && !slot.pin->doomed.load(std::memory_order_relaxed))
        remember(slot.address, slot.pin);
    }
  }
}

}  // namespace hbmwire::detail
