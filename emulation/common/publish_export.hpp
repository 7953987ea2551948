// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/common/owned_fd.hpp"

namespace hbmwire::emulation {

/// The contents of a dma-buf to be made.
struct ExportSource {
  const char* name = "";  ///< of the memfd, as shown in /proc
  std::string backing_path;
  std::string posted_path;                  ///< empty: there is none
  std::span<const ExportSegment> segments;  ///< at least one, in whole pages
};

/// The two descriptors of a published export.
struct PublishedExport {
  OwnedFd memfd;      ///< for DeletionWatch; then close it
  OwnedFd reference;  ///< for the application: it can be passed on and imported, but not accessed
};

/// Makes the memfd that stands for a dma-buf (emulation/docs/architecture.md). Returns 0 or -errno.
int publish_export(const ExportSource& source, PublishedExport& made);

}  // namespace hbmwire::emulation
