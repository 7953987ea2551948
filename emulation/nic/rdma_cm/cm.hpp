// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/rdma_cm/cm_lock.hpp"
#include "emulation/nic/rdma_cm/fabric_ports.hpp"
#include "emulation/nic/rdma_cm/timer.hpp"

namespace hbmwire::emulation::nic {

/// The connection manager in this process. It is made when the first event channel is opened and is
/// never destroyed, as its Process.
class Cm {
 public:
  /// Returns null with errno if there is no world. Call it from one thread at a time.
  static Cm* join();

  Cm(const Cm&) = delete;
  Cm& operator=(const Cm&) = delete;
  Cm(Cm&&) = delete;
  Cm& operator=(Cm&&) = delete;
  ~Cm() = delete;

  [[nodiscard]] CmTables& tables() const { return tables_of(process); }

  Process& process;
  const std::uint64_t node;  // inode of our node's directory
  FabricPorts ports;
  CmTimer timer;

 private:
  explicit Cm(Process& joined);
};

/// The network namespace of the calling thread.
std::uint64_t current_network();

}  // namespace hbmwire::emulation::nic
