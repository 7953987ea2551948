// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hbmwire::detail {

struct TransferState;

/// Transfers that wait for an answer of the peer, by the id that the peer returns. The low 16 bits
/// of an id are a place + 1, so that no id is 0. The high 16 bits are how often that place was
/// used, so that a late answer to an earlier transfer is recognised.
class Slots {
 public:
  explicit Slots(std::uint32_t count);

  [[nodiscard]] bool full() const noexcept { return free_ == kNone; }

  /// Returns the new id of `transfer`. full() must be false.
  [[nodiscard]] std::uint32_t open(TransferState& transfer) noexcept {
    Slot& slot = slots_[free_];
    const std::uint32_t place = free_;
    free_ = slot.next;
    slot.transfer = &transfer;
    return place + 1 + (static_cast<std::uint32_t>(slot.uses) << 16U);
  }

  /// Null if there is no transfer with that id.
  [[nodiscard]] TransferState* find(std::uint32_t id) const noexcept {
    const std::uint32_t place = place_of(id);
    if (place >= slots_.size() || slots_[place].uses != id >> 16U) return nullptr;
    return slots_[place].transfer;
  }

  /// Closes a slot, which must be open.
  void close(std::uint32_t id) noexcept {
    Slot& slot = slots_[place_of(id)];
    slot.transfer = nullptr;
    ++slot.uses;
    slot.next = free_;
    free_ = place_of(id);
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }

  /// The id of the transfer at `place`; 0: none is there.
  [[nodiscard]] std::uint32_t id_at(std::uint32_t place) const noexcept {
    const Slot& slot = slots_[place];
    if (slot.transfer == nullptr) return 0;
    return place + 1 + (static_cast<std::uint32_t>(slot.uses) << 16U);
  }

  [[nodiscard]] static std::uint32_t place_of(std::uint32_t id) noexcept {
    return (id & 0xffffU) - 1;
  }

  /// Closes all slots, and calls `use` with each transfer and its place.
  template <class Use>
  void clear(const Use& use) noexcept {
    for (std::uint32_t place = 0; place < slots_.size(); ++place) {
      TransferState* const transfer = slots_[place].transfer;
      if (transfer == nullptr) continue;
      close(place + 1);  // close() looks only at the place in the id
      use(*transfer, place);
    }
  }

  [[nodiscard]] bool empty() const noexcept {
    for (const Slot& slot : slots_) {
      if (slot.transfer != nullptr) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;

  struct Slot {
    TransferState* transfer = nullptr;
    std::uint32_t next = kNone;
    std::uint16_t uses = 0;
  };

  std::vector<Slot> slots_;
  std::uint32_t free_ = kNone;  // the first free place; Slot::next leads to the others
};

}  // namespace hbmwire::detail
