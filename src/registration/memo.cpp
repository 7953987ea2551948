// SPDX-License-Identifier: MIT
#include "registration/memo.hpp"

#include <utility>

namespace hbmwire::detail {

void Memo::remember(std::uint64_t address, Pin* pin) {
  remember_key(key_of(address, pin->access), pin);
}

void Memo::remember_key(std::uint64_t key, Pin* pin) {
  auto& slots = buckets_[index_of(key)].slots;
  Slot* chosen = nullptr;
  for (Slot& slot : slots) {
    if (slot.pin != nullptr && slot.key == key) {
      chosen = &slot;  // never twice: the last one would be found
      break;
    }
    const bool free = slot.pin == nullptr || slot.pin->doomed.load(std::memory_order_relaxed);
    if (free && chosen == nullptr) chosen = &slot;
  }
  if (chosen == nullptr) chosen = &slots.at(next_way_++ % kWays);
  *chosen = Slot{.key = key, .pin = pin};
}

void Memo::make_room_for(std::size_t addresses) {
  // Three addresses to two buckets of four: one in fifty finds its bucket full.
  std::size_t wanted = buckets_.size();
  while (wanted * 3 < addresses * 2) wanted *= 2;
  if (wanted == buckets_.size()) return;
  const auto old = std::exchange(buckets_, Buckets(wanted));
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(wanted));
  for (const Bucket& bucket : old) {
    for (const Slot& slot : bucket.slots) {
      if (slot.pin != nullptr && !slot.pin->doomed.load(std::memory_order_relaxed))
        remember_key(slot.key, slot.pin);
    }
  }
}

}  // namespace hbmwire::detail
