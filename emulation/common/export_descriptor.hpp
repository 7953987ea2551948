// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

namespace hbmwire::emulation {

/// The first bytes of an emulated dma-buf (see emulation/docs/architecture.md). The exporter writes
/// them (publish_export.hpp) and the importer reads them (emulation/nic). Both run as the same user
/// on the same machine.
///
/// If segment_count is 0, the exported bytes are one range of the backing file. Otherwise they are
/// the ranges of the ExportSegment table that follows the descriptor, one after the other.
struct ExportDescriptor {
  static constexpr std::uint64_t kMagic = 0x0032'4655'4244'4d48;  // "HMDBUF2\0", little endian

  std::uint64_t magic = kMagic;
  std::uint64_t offset_bytes = 0;  ///< of the exported range in the backing file
  std::uint64_t length_bytes = 0;  ///< size of the whole export, as fstat of the dma-buf returns it
  std::uint64_t segment_count = 0;
  char backing_path[512] = {};  ///< absolute path of the file that holds the memory, NUL-terminated
  char posted_path[512] = {};   ///< path of the card's PostedWrites; empty: none
};

/// A range of the backing file, in whole pages.
struct ExportSegment {
  static constexpr std::uint64_t kPageBytes = 4096;

  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;

  bool operator==(const ExportSegment&) const = default;
};

static_assert(std::is_trivially_copyable_v<ExportDescriptor>);
static_assert(std::is_trivially_copyable_v<ExportSegment>);
// A segment has at least a page, so a file always has room for its table.
static_assert(sizeof(ExportDescriptor) + sizeof(ExportSegment) <= ExportSegment::kPageBytes);

}  // namespace hbmwire::emulation
