// SPDX-License-Identifier: MIT
#include "registration/memo.hpp"

#include <utility>

namespace hbmwire::detail {

void Memo::remember(std::uint64_t address, Pin* pin) {
  if (remember_key(key_of(address, pin->access), pin)) return;
  // A look-up that is not remembered costs a hundred others.
  if (++given_way_ * 8 > buckets_.size() && buckets_.size() < kMostBuckets) grow();
}

bool Memo::remember_key(std::uint64_t key, Pin* pin) {
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
  const bool has_room = chosen != nullptr;
  if (!has_room) chosen = &slots.at(next_way_++ % kWays);
  *chosen = Slot{.key = key, .pin = pin};
  return has_room;
}

void Memo::grow() {
  const std::size_t wanted = buckets_.size() * 2;
  given_way_ = 0;
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
