// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hbmwire::detail {

struct TransferState;

/// Transfers that wait for the peer's word, by the id that the peer gives back: a place and how
/// often that was used, so that word of an earlier one is known as such.
class Slots {
 public:
  explicit Slots(std::uint32_t count);

  [[nodiscard]] bool full() const noexcept { return free_ == kNone; }

  [[nodiscard]] std::uint32_t open(TransferState& transfer) noexcept {
    Slot& slot = slots_[free_];
    const std::uint32_t place = free_;
    free_ = slot.next;
    slot.transfer = &transfer;
    return place + 1 + (static_cast<std::uint32_t>(slot.uses) << 16U);
  }

  /// Null: there is none of that id.
  [[nodiscard]] TransferState* find(std::uint32_t id) const noexcept {
    const std::uint32_t place = place_of(id);
    if (place >= slots_.size() || slots_[place].uses != id >> 16U) return nullptr;
    return slots_[place].transfer;
  }

  /// One that is open.
  void close(std::uint32_t id) noexcept {
    Slot& slot = slots_[place_of(id)];
    slot.transfer = nullptr;
    ++slot.uses;
    slot.next = free_;
    free_ = place_of(id);
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }

  /// 0: nothing is open there.
  [[nodiscard]] std::uint32_t id_at(std::uint32_t place) const noexcept {
    const Slot& slot = slots_[place];
    if (slot.transfer == nullptr) return 0;
    return place + 1 + (static_cast<std::uint32_t>(slot.uses) << 16U);
  }

  [[nodiscard]] static std::uint32_t place_of(std::uint32_t id) noexcept {
    return (id & 0xffffU) - 1;
  }

  /// Closes all, and hands over whose they were.
  template <class Use>
  void clear(const Use& use) noexcept {
    for (std::uint32_t place = 0; place < slots_.size(); ++place) {
      TransferState* const transfer = slots_[place].transfer;
      if (transfer == nullptr) continue;
      close(place + 1);
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
  std::uint32_t free_ = kNone;
};

}  // namespace hbmwire::detail
