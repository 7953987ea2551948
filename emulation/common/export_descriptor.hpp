// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

namespace hbmwire::emulation {

/// What lies at the start of an emulated dma-buf (see emulation/README.md). Written by the exporter
/// (emulation/gaudi), read by the importer (emulation/nic); both run as the same user on the same
/// machine.
struct ExportDescriptor {
  static constexpr std::uint64_t kMagic = 0x0031'4655'4244'4d48;  // "HMDBUF1\0", little endian

  std::uint64_t magic = kMagic;
  std::uint64_t offset_bytes = 0;  ///< where the exported range begins in the backing file
  std::uint64_t length_bytes =
      0;                        ///< size of the exported range; fstat of the dma-buf says the same
  char backing_path[512] = {};  ///< absolute path of the file that holds the memory, NUL-terminated
  char posted_path[512] = {};   ///< of the card's PostedWrites; empty when it has none
};

static_assert(std::is_trivially_copyable_v<ExportDescriptor>);
static_assert(sizeof(ExportDescriptor) <= 4096, "the smallest export is one page");

}  // namespace hbmwire::emulation
