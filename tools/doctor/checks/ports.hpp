// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/checks/hardware.hpp"

namespace hbmwire::tools::doctor {

/// A port of a NIC, by /sys/class/infiniband.
struct Port {
  const Nic* nic = nullptr;
  std::string number;   ///< "1"
  std::string folder;   ///< "/sys/class/infiniband/mlx5_0/ports/1"
  std::string subject;  ///< "mlx5_0 port 1"
  bool ethernet = false;
  bool active = false;
  Answer state;       ///< "4: ACTIVE"
  Answer link_layer;  ///< "Ethernet", "InfiniBand"
};

/// An entry of a port's GID table that is not empty.
struct Gid {
  std::string index;
  std::string address;
  std::string type;       ///< "RoCE v2", "IB/RoCE v1"; empty if it could not be read
  std::string interface;  ///< "eth0"; empty if it could not be read
};

/// The ports of all NICs. Adds an unknown finding of `check` to `findings` for each NIC whose ports
/// cannot be listed. `hardware` must outlive the result.
[[nodiscard]] std::vector<Port> ports_of(Evidence& machine, const Hardware& hardware,
                                         const std::string& check, std::vector<Finding>& findings);

/// The ports that are active. Also adds an unknown finding for each port whose state or link layer
/// cannot be read.
[[nodiscard]] std::vector<Port> active_ports(Evidence& machine, const Hardware& hardware,
                                             const std::string& check,
                                             std::vector<Finding>& findings);

/// The GID table, ordered by index; `error` is the errno of the first entry that could not be read.
[[nodiscard]] std::vector<Gid> gids_of(Evidence& machine, const Port& port, int& error);

/// The network interface of a port.
struct Interface {
  int error = 0;     ///< errno if a file that shows it could not be read
  std::string name;  ///< "eth0"; empty if there is none or it cannot be determined
};

/// Leaves out invalid names (see is_device_name()).
[[nodiscard]] Interface interface_of(Evidence& machine, const Port& port);

/// A port as in `hbmwire info --json`; null if it is not there.
[[nodiscard]] const Json& told_of(const Port& port);

}  // namespace hbmwire::tools::doctor
