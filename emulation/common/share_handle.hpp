// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace hbmwire::emulation {

/// The key by which a range of a GPU's memory is shared with other processes. It is random, so that
/// memory that is shared later, or in another world, never has the same key.
using ShareKey = std::array<std::uint64_t, 2>;

/// The contents of a vendor's handle of memory for another process. They are not trusted: the key
/// must be one in the GPU's `state`.
struct ShareHandle {
  std::uint64_t family = 0;  ///< kCuda or kRocm
  std::uint32_t gpu = 0;     ///< its number in the node
  std::uint32_t zero = 0;
  ShareKey key{};

  static constexpr std::uint64_t kCuda = 0x6375'6461'6970'6331;  // "cudaipc1"
  static constexpr std::uint64_t kRocm = 0x726f'636d'6970'6331;  // "rocmipc1"

  bool operator==(const ShareHandle&) const = default;
};

static_assert(sizeof(ShareHandle) == 32);

/// Writes the handle to the beginning of a vendor's handle, and zeros to its rest.
void write_handle(const ShareHandle& handle, std::span<std::byte> to);

/// Returns nullopt if no library of this family can have written these bytes.
std::optional<ShareHandle> read_handle(std::span<const std::byte> from, std::uint64_t family);

}  // namespace hbmwire::emulation
