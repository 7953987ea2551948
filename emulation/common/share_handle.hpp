// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace hbmwire::emulation {

/// What a range of a GPU's memory is offered by to other processes: random, so that memory that is
/// offered later, or in another world, never has the same.
using ShareKey = std::array<std::uint64_t, 2>;

/// What the vendors' libraries hand out as the handle of memory for another process. Nothing in it
/// is taken at its word: the key has to be one that the GPU's `state` has.
struct ShareHandle {
  std::uint64_t family = 0;  ///< kCuda, kRocm
  std::uint32_t gpu = 0;     ///< its number in the node
  std::uint32_t zero = 0;
  ShareKey key{};

  static constexpr std::uint64_t kCuda = 0x6375'6461'6970'6331;  // "cudaipc1"
  static constexpr std::uint64_t kRocm = 0x726f'636d'6970'6331;  // "rocmipc1"

  bool operator==(const ShareHandle&) const = default;
};

static_assert(sizeof(ShareHandle) == 32);

/// Into a vendor's handle; what is left of that becomes zeros.
void write_handle(const ShareHandle& handle, std::span<std::byte> to);

/// Nothing when no library of this family can have written these bytes.
std::optional<ShareHandle> read_handle(std::span<const std::byte> from, std::uint64_t family);

}  // namespace hbmwire::emulation
