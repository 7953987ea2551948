// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/region.hpp"

// Many blocks of equal length in one transfer: the pages of a KV cache, the rows of an embedding
// table. Endpoint::put_blocks() and get_blocks() take two tables and pairs of block numbers.
namespace hbmwire {

namespace detail {
struct BlockTableState;
struct Internals;
struct RemoteBlockTableState;
}  // namespace detail

/// This side's memory as blocks of equal length. Numbered from 0 on, through all areas in their
/// order. Immutable; any thread may use it. Copies share it, and it keeps its regions.
class HBMWIRE_API BlockTable {
 public:
  /// Cuts each area into blocks of `block_bytes`. If a cache has a region for each layer, give one
  /// area for each layer: block b of layer l is number l * blocks_of_a_layer + b. Errors, of
  /// Stage::configure: Errc::invalid_argument (no area, a block of no bytes, an area that leaves
  /// its region or is no whole number of blocks).
  static Result<BlockTable> create(std::span<const Slice> areas, std::uint64_t block_bytes);

  /// The length of each block, in bytes.
  [[nodiscard]] std::uint64_t block_bytes() const noexcept;

  /// The number of blocks.
  [[nodiscard]] std::uint64_t size() const noexcept;

 private:
  friend struct detail::Internals;

  explicit BlockTable(std::shared_ptr<const detail::BlockTableState> state) noexcept;

  std::shared_ptr<const detail::BlockTableState> state_;
};

/// The peer's memory as blocks of equal length, as BlockTable is this side's. It ends with the
/// connection, as its RemoteRegions do.
class HBMWIRE_API RemoteBlockTable {
 public:
  /// Cuts areas into blocks, as BlockTable::create().
  static Result<RemoteBlockTable> create(std::span<const RemoteSlice> areas,
                                         std::uint64_t block_bytes);

  /// The length of each block, in bytes.
  [[nodiscard]] std::uint64_t block_bytes() const noexcept;

  /// The number of blocks.
  [[nodiscard]] std::uint64_t size() const noexcept;

 private:
  friend struct detail::Internals;

  explicit RemoteBlockTable(std::shared_ptr<const detail::RemoteBlockTableState> state) noexcept;

  std::shared_ptr<const detail::RemoteBlockTableState> state_;
};

/// A range that BlockNumbers may refer to: a vector, a span or an array of `Number`. It excludes a
/// temporary vector or array, which would be gone before its numbers are used. It includes a
/// temporary span, since that owns nothing.
template <class Array, class Number>
concept ArrayOf =
    std::ranges::borrowed_range<Array> && std::is_convertible_v<Array, std::span<const Number>>;

/// Numbers of blocks, of 32 or 64 bits each. Refers to an array of the program, which must stay as
/// it is while the numbers are in use.
struct BlockNumbers {
  BlockNumbers() noexcept = default;

  /// Refers to all of `numbers`, of 32 bits each; copies nothing.
  // NOLINTBEGIN(google-explicit-constructor,bugprone-forwarding-reference-overload): an array says
  // it all
  template <ArrayOf<std::uint32_t> Numbers>
  BlockNumbers(Numbers&& numbers) noexcept {
    const std::span<const std::uint32_t> all(numbers);
    first = all.data();
    size = all.size();
  }

  /// Refers to all of `numbers`, of 64 bits each; copies nothing.
  template <ArrayOf<std::uint64_t> Numbers>
  BlockNumbers(Numbers&& numbers) noexcept : wide(true) {
    const std::span<const std::uint64_t> all(numbers);
    first = all.data();
    size = all.size();
  }

  // NOLINTEND(google-explicit-constructor,bugprone-forwarding-reference-overload)

  /// The number at `index`, which must be less than `size`.
  [[nodiscard]] std::uint64_t operator[](std::size_t index) const noexcept {
    return wide ? static_cast<const std::uint64_t*>(first)[index]
                : static_cast<const std::uint32_t*>(first)[index];
  }

  const void* first = nullptr;  ///< the first of `size` numbers
  std::size_t size = 0;         ///< how many numbers there are
  bool wide = false;            ///< true: of 64 bits each; false: of 32
};

}  // namespace hbmwire
