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
  /// A dma-buf of this many bytes (whole pages), all zero. An empty handle when the kernel refuses;
  /// errno says why.
  Fd (*make)(std::uint64_t size_bytes);

  friend std::ostream& operator<<(std::ostream& stream, const DmabufExporter& exporter) {
    return stream << exporter.node;
  }
};

/// /dev/udmabuf, of a memfd whose size is sealed.
Fd make_udmabuf(std::uint64_t size_bytes);

/// /dev/dma_heap/system.
Fd make_heap_buffer(std::uint64_t size_bytes);

/// A "dumb" buffer of the DRM driver vgem, exported by PRIME.
Fd make_vgem_buffer(std::uint64_t size_bytes);

/// Where the vgem driver's node is: the number depends on what else there is.
std::string vgem_node();

}  // namespace hbmwire::test
