// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

namespace hbmwire::emulation {

/// The first bytes of an emulated dma-buf (see emulation/docs/architecture.md). Written by the
/// exporter (publish_export.hpp), read by the importer (emulation/nic); both run as the same user
/// on the same machine.
///
/// The exported bytes are one range of the backing file; or, where segment_count is not 0, the
/// ranges in the table of ExportSegment that follows the descriptor, one after the other.
struct ExportDescriptor {
  static constexpr std::uint64_t kMagic = 0x0032'4655'4244'4d48;  // "HMDBUF2\0", little endian

  std::uint64_t magic = kMagic;
  std::uint64_t offset_bytes = 0;  ///< where the exported range begins in the backing file
  std::uint64_t length_bytes =
      0;  ///< size of all that is exported; fstat of the dma-buf says the same
  std::uint64_t segment_count = 0;
  char backing_path[512] = {};  ///< absolute path of the file that holds the memory, NUL-terminated
  char posted_path[512] = {};   ///< of the card's PostedWrites; empty when it has none
};

/// One range of the backing file, in whole pages.
struct ExportSegment {
  static constexpr std::uint64_t kPageBytes = 4096;

  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;

  bool operator==(const ExportSegment&) const = default;
};

static_assert(std::is_trivially_copyable_v<ExportDescriptor>);
static_assert(std::is_trivially_copyable_v<ExportSegment>);
// A segment has a page at least, so that a table always has room.
static_assert(sizeof(ExportDescriptor) + sizeof(ExportSegment) <= ExportSegment::kPageBytes);

}  // namespace hbmwire::emulation
