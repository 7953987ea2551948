// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

/// NVIDIA's kernel driver, as /proc/driver/nvidia/version tells of it.
struct NvidiaDriver {
  int error = 0;              ///< errno of reading that file; ENOENT: not loaded
  bool open = false;          ///< the open kernel modules, which alone export dma-bufs
  std::uint64_t release = 0;  ///< 535; 0: not found in the text
  std::string text;           ///< the line that tells it

  /// The open modules do so since release 515.
  [[nodiscard]] bool exports_dmabufs() const noexcept { return open && release >= kFirstOpen; }

  static constexpr std::uint64_t kFirstOpen = 515;
};

[[nodiscard]] NvidiaDriver nvidia_driver_of(Evidence& machine);

/// The module that gives NICs NVIDIA's memory by its address.
struct PeerModule {
  bool hidden = false;  ///< whether one is loaded can't be seen
  std::string name;     ///< "nvidia_peermem"; empty: none, or hidden

  [[nodiscard]] bool is_loaded() const noexcept { return !name.empty(); }
};

[[nodiscard]] PeerModule nvidia_peer_module(Evidence& machine);

}  // namespace hbmwire::tools::doctor
