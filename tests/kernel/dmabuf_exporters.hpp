// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "hbmwire/fd.hpp"

// The kernel's own exporters of system memory.
namespace hbmwire::test {

struct DmabufExporter {
  const char* name;
  const char* node;
  /// A dma-buf of this many bytes (whole pages), all zero. Returns an empty handle if the kernel
  /// refuses, with the reason in errno.
  Fd (*make)(std::uint64_t size_bytes);

  friend std::ostream& operator<<(std::ostream& stream, const DmabufExporter& exporter) {
    return stream << exporter.node;
  }
};

/// By /dev/udmabuf, from a memfd with a sealed size.
Fd make_udmabuf(std::uint64_t size_bytes);

/// By /dev/dma_heap/system.
Fd make_heap_buffer(std::uint64_t size_bytes);

/// A "dumb" buffer of the DRM driver vgem, exported by PRIME.
Fd make_vgem_buffer(std::uint64_t size_bytes);

/// The path of the vgem driver's node. Its number depends on other devices.
std::string vgem_node();

}  // namespace hbmwire::test
