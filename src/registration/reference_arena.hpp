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
#include "registration/registration_reference.hpp"

namespace hbmwire::detail {

struct CachedRegion;
struct PerThreadCache;

/// The part of a reference that few hits need.
struct ReferenceRest {
  CachedRegion* region = nullptr;  // null: free; guarded by the cache's lock, or fixed while in use
  // Only the reference's own thread reads these two. `end`: the end of the covered range. `strict`:
  // whether each use must ask if an unmapping is under way.
  std::uint64_t end = 0;
  bool strict = false;
  std::atomic<std::uint32_t> given_back{0};  // leases that other threads gave back
};

/// A block of references. It is aligned to its size, so that the address of any of its references
/// leads to the block.
struct alignas(256 * 1024) ReferenceBlock {
  static constexpr std::size_t kBytes = 256 * 1024;
  static constexpr std::size_t kUnits = kBytes / sizeof(RegistrationReference);
  static constexpr std::size_t kReferences = kUnits - 2;  // the header takes the room of two

  std::uint64_t view_number;  // PerThreadCache's
  PerThreadCache* view;
  ReferenceRest* rests;  // one for each reference
  std::uint32_t number;  // the block's number in its arena
  std::array<RegistrationReference, kReferences> references;

  [[nodiscard]] static ReferenceBlock& of(const RegistrationReference& reference) noexcept {
    return *std::bit_cast<ReferenceBlock*>(std::bit_cast<std::uintptr_t>(&reference) &
                                           ~(kBytes - 1));
  }
};

static_assert(sizeof(ReferenceBlock) == ReferenceBlock::kBytes);

[[nodiscard]] inline ReferenceRest& rest_of(const RegistrationReference& reference) noexcept {
  ReferenceBlock& block = ReferenceBlock::of(reference);
  return block.rests[&reference - block.references.data()];
}

/// The owner of the reference; never changes.
[[nodiscard]] inline PerThreadCache& view_at(const RegistrationReference& reference) noexcept {
  return *ReferenceBlock::of(reference).view;
}

/// Like RegistrationReference::covers(), but for regions of any size. An empty range, or one that
/// wraps, is not covered.
[[nodiscard]] inline bool covers_closely(const RegistrationReference& reference,
                                         std::uint64_t address,
                                         std::uint64_t length_bytes) noexcept {
  const std::uint64_t last = address + length_bytes - 1;
  return last >= address && reference.begin <= address && last < rest_of(reference).end;
}

/// The number of leases. Exact after a heavy fence, or under the cache's lock once the region is
/// forgotten.
[[nodiscard]] inline std::uint32_t leases_of(const RegistrationReference& reference) noexcept {
  const std::uint32_t given_back = rest_of(reference).given_back.load(std::memory_order_acquire);
  return reference.count.load(std::memory_order_acquire) - given_back;
}

/// Allocates references. They never move, and live as long as the arena. For one thread.
class ReferenceArena {
 public:
  /// `view` may be null if view_at() is never called.
  ReferenceArena(PerThreadCache* view, std::uint64_t view_number)
      : view_(view), view_number_(view_number) {}

  ReferenceArena(const ReferenceArena&) = delete;
  ReferenceArena& operator=(const ReferenceArena&) = delete;

  ~ReferenceArena() {
    static_assert(std::is_trivially_destructible_v<RegistrationReference> &&
                  std::is_trivially_destructible_v<ReferenceRest>);
    for (ReferenceBlock* const block : blocks_)
      Rests().deallocate(block->rests, ReferenceBlock::kReferences);
    for (const Memory& one : memory_) Blocks().deallocate(one.blocks, one.count);
  }

  RegistrationReference& add() {
    if (size_ == blocks_.size() * ReferenceBlock::kReferences) add_block();
    ReferenceBlock& block = *blocks_.back();
    const std::size_t index = size_++ % ReferenceBlock::kReferences;
    new (&block.rests[index]) ReferenceRest;
    return *new (&block.references[index]) RegistrationReference;
  }

  /// A number that replaces the address of a reference, never 0. It is half as wide, which leaves
  /// room for hash bits in a slot of a hash table.
  [[nodiscard]] static std::uint32_t unit_of(const RegistrationReference& reference) noexcept {
    const ReferenceBlock& block = ReferenceBlock::of(reference);
    const auto inside = std::bit_cast<std::uintptr_t>(&reference) % ReferenceBlock::kBytes /
                        sizeof(RegistrationReference);
    return block.number * static_cast<std::uint32_t>(ReferenceBlock::kUnits) +
           static_cast<std::uint32_t>(inside);
  }

  /// For a number from unit_of() that is below kUnits.
  [[nodiscard]] RegistrationReference* at(std::uint32_t unit) const noexcept {
    return std::bit_cast<RegistrationReference*>(origins_[unit / ReferenceBlock::kUnits] +
                                                 unit * sizeof(RegistrationReference));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// References from this number on do not fit in a slot: at() is not for them.
  static constexpr std::uint32_t kUnits = std::uint32_t{1} << 20U;

 private:
  using Blocks = BigPageAllocator<ReferenceBlock>;
  using Rests = std::allocator<ReferenceRest>;

  /// Memory for one or more blocks, in one piece.
  struct Memory {
    ReferenceBlock* blocks;
    std::size_t count;
  };

  static constexpr std::size_t kInABigPage = (std::size_t{2} << 20U) / ReferenceBlock::kBytes;

  void add_block() {
    // A cache of many regions gets big pages. A small one must not take a whole big page.
    if (left_ == 0) {
      const std::size_t count = blocks_.size() < 2 ? 1 : kInABigPage;
      memory_.reserve(memory_.size() + 1);
      memory_.push_back({Blocks().allocate(count), count});
      left_ = count;
    }
    const Memory& last = memory_.back();
    ReferenceBlock* const block = last.blocks + (last.count - left_);
    const std::size_t number = blocks_.size();
    blocks_.reserve(number + 1);
    block->rests = Rests().allocate(ReferenceBlock::kReferences);
    block->view_number = view_number_;
    block->view = view_;
    block->number = static_cast<std::uint32_t>(number);
    if (number < origins_.size())
      origins_[number] = std::bit_cast<std::uintptr_t>(block) - number * ReferenceBlock::kBytes;
    blocks_.push_back(block);
    --left_;
  }

  PerThreadCache* const view_;
  const std::uint64_t view_number_;
  // For each block: the address that unit 0 would have if all blocks lay in one row with it.
  std::array<std::uintptr_t, kUnits / ReferenceBlock::kUnits> origins_{};
  std::vector<ReferenceBlock*> blocks_;
  std::size_t size_ = 0;
  std::vector<Memory> memory_;
  std::size_t left_ = 0;  // unused blocks in the last one
};

}  // namespace hbmwire::detail
