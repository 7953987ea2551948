// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "registration/big_pages.hpp"
#include "registration/pin.hpp"

namespace hbmwire::detail {

struct CachedRegion;
struct ThreadView;

/// What is known of a pin besides, and few hits ask for.
struct PinRest {
  CachedRegion* region = nullptr;  // null: free; by the cache's lock, or while it is in use
  // Of the pin's thread alone: to where it covers the region; and whether what is being unmapped
  // must be asked about at each use.
  std::uint64_t end = 0;
  bool strict = false;
  std::atomic<std::uint32_t> given_back{0};  // leases of the pin's count, by other threads
};

/// Pins that lie together. Aligned to its size, so that it is found by the address of any of its
/// pins.
struct alignas(256 * 1024) PinBlock {
  static constexpr std::size_t kBytes = 256 * 1024;
  static constexpr std::size_t kUnits = kBytes / sizeof(Pin);
  static constexpr std::size_t kPins = kUnits - 2;  // the room of two is for what stands in front

  std::uint64_t view_number;  // ThreadView's
  ThreadView* view;
  PinRest* rests;        // of each pin
  std::uint32_t number;  // in its arena
  std::array<Pin, kPins> pins;

  [[nodiscard]] static PinBlock& of(const Pin& pin) noexcept {
    return *std::bit_cast<PinBlock*>(std::bit_cast<std::uintptr_t>(&pin) & ~(kBytes - 1));
  }
};

static_assert(sizeof(PinBlock) == PinBlock::kBytes);

[[nodiscard]] inline PinRest& rest_of(const Pin& pin) noexcept {
  PinBlock& block = PinBlock::of(pin);
  return block.rests[&pin - block.pins.data()];
}

/// Whose pin it is; set once.
[[nodiscard]] inline ThreadView& view_at(const Pin& pin) noexcept {
  return *PinBlock::of(pin).view;
}

/// Pin::covers() of a region of any size.
[[nodiscard]] inline bool covers_closely(const Pin& pin, std::uint64_t address,
                                         std::uint64_t length_bytes) noexcept {
  const std::uint64_t last = address + length_bytes - 1;
  return last >= address && pin.begin <= address && last < rest_of(pin).end;
}

/// How many leases of it there are; exact after a heavy fence, or by the cache's lock once doomed.
[[nodiscard]] inline std::uint32_t leases_of(const Pin& pin) noexcept {
  const std::uint32_t given_back = rest_of(pin).given_back.load(std::memory_order_acquire);
  return pin.count.load(std::memory_order_acquire) - given_back;
}

/// Pins, which stay where they are for as long as the arena lives. One thread.
class PinArena {
 public:
  /// `view` may be null where nobody asks.
  PinArena(ThreadView* view, std::uint64_t view_number) : view_(view), view_number_(view_number) {}

  PinArena(const PinArena&) = delete;
  PinArena& operator=(const PinArena&) = delete;

  ~PinArena() {
    static_assert(std::is_trivially_destructible_v<Pin> &&
                  std::is_trivially_destructible_v<PinRest>);
    for (PinBlock* const block : blocks_) Rests().deallocate(block->rests, PinBlock::kPins);
    for (const Memory& one : memory_) Blocks().deallocate(one.blocks, one.count);
  }

  Pin& add() {
    if (size_ == blocks_.size() * PinBlock::kPins) add_block();
    PinBlock& block = *blocks_.back();
    const std::size_t index = size_++ % PinBlock::kPins;
    new (&block.rests[index]) PinRest;
    return *new (&block.pins[index]) Pin;
  }

  /// A number in place of a pin's address, never 0: half of the room that a hash table needs,
  /// with its hash.
  [[nodiscard]] static std::uint32_t unit_of(const Pin& pin) noexcept {
    const PinBlock& block = PinBlock::of(pin);
    const auto inside = std::bit_cast<std::uintptr_t>(&pin) % PinBlock::kBytes / sizeof(Pin);
    return block.number * static_cast<std::uint32_t>(PinBlock::kUnits) +
           static_cast<std::uint32_t>(inside);
  }

  /// Of a number below kUnits that unit_of() has given.
  [[nodiscard]] Pin* at(std::uint32_t unit) const noexcept {
    return std::bit_cast<Pin*>(origins_[unit / PinBlock::kUnits] + unit * sizeof(Pin));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Pins beyond so many units have no number: at() is of these.
  static constexpr std::uint32_t kUnits = std::uint32_t{1} << 20U;

 private:
  using Blocks = BigPageAllocator<PinBlock>;
  using Rests = std::allocator<PinRest>;

  struct Memory {
    PinBlock* blocks;
    std::size_t count;
  };

  static constexpr std::size_t kInABigPage = (std::size_t{2} << 20U) / PinBlock::kBytes;

  void add_block() {
    // Whoever has many regions gets big pages; few shall not take one.
    if (left_ == 0) {
      const std::size_t count = blocks_.size() < 2 ? 1 : kInABigPage;
      memory_.reserve(memory_.size() + 1);
      memory_.push_back({Blocks().allocate(count), count});
      left_ = count;
    }
    const Memory& last = memory_.back();
    PinBlock* const block = last.blocks + (last.count - left_);
    const std::size_t number = blocks_.size();
    blocks_.reserve(number + 1);
    block->rests = Rests().allocate(PinBlock::kPins);
    block->view_number = view_number_;
    block->view = view_;
    block->number = static_cast<std::uint32_t>(number);
    if (number < origins_.size())
      origins_[number] = std::bit_cast<std::uintptr_t>(block) - number * PinBlock::kBytes;
    blocks_.push_back(block);
    --left_;
  }

  ThreadView* const view_;
  const std::uint64_t view_number_;
  // Of each block: where unit 0 would be if all were one.
  std::array<std::uintptr_t, kUnits / PinBlock::kUnits> origins_{};
  std::vector<PinBlock*> blocks_;
  std::size_t size_ = 0;
  std::vector<Memory> memory_;
  std::size_t left_ = 0;  // blocks of the last one
};

}  // namespace hbmwire::detail
