// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/doctor/evidence/evidence.hpp"

// The kernel's symbols (/proc/kallsyms, some 10 MiB) and its configuration (/proc/config.gz,
// /boot/config-*, some 300 KiB). They are too large for an archive, and a few of their lines are
// enough.
namespace hbmwire::tools::doctor {

/// Whether the file at `path` is one of these.
[[nodiscard]] bool is_kernel_text(const std::string& path);

/// The lines that name a symbol or an option of RDMA, dma-bufs, peer-to-peer DMA, the IOMMU or an
/// accelerator's driver. Replaces the addresses of symbols by zeros; unpacks /proc/config.gz.
[[nodiscard]] Answer read_kernel_text(const std::string& path, int fd);

}  // namespace hbmwire::tools::doctor
