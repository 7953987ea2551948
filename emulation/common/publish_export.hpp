// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/common/owned_fd.hpp"

namespace hbmwire::emulation {

/// What a dma-buf is to be of.
struct ExportSource {
  const char* name = "";  ///< of the memfd, as /proc shows it
  std::string backing_path;
  std::string posted_path;                  ///< empty: there is none
  std::span<const ExportSegment> segments;  ///< one at least, in whole pages
};

struct PublishedExport {
  OwnedFd memfd;      ///< to be watched (DeletionWatch) and closed
  OwnedFd reference;  ///< what the application gets: can be passed on and imported, not accessed
};

/// Makes the memfd that stands in for a dma-buf (emulation/docs/architecture.md). 0 or -errno.
int publish_export(const ExportSource& source, PublishedExport& made);

}  // namespace hbmwire::emulation
