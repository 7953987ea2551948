// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

/// NVIDIA's kernel driver, as /proc/driver/nvidia/version describes it.
struct NvidiaDriver {
  int error = 0;              ///< errno of reading that file; ENOENT if the driver is not loaded
  bool open = false;          ///< the open kernel modules: the closed ones export no dma-bufs
  std::uint64_t release = 0;  ///< 535; 0: not found in the text
  std::string text;           ///< the line of the file that names the version

  /// The open modules export dma-bufs since release 515.
  [[nodiscard]] bool exports_dmabufs() const noexcept { return open && release >= kFirstOpen; }

  static constexpr std::uint64_t kFirstOpen = 515;
};

[[nodiscard]] NvidiaDriver nvidia_driver_of(Evidence& machine);

/// The kernel module that lets NICs register NVIDIA's memory by its address, without a dma-buf.
struct PeerModule {
  bool hidden = false;  ///< the list of modules could not be read
  std::string name;     ///< "nvidia_peermem"; empty: none, or hidden

  [[nodiscard]] bool is_loaded() const noexcept { return !name.empty(); }
};

[[nodiscard]] PeerModule nvidia_peer_module(Evidence& machine);

}  // namespace hbmwire::tools::doctor
