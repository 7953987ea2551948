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
  std::string type;       ///< "RoCE v2", "IB/RoCE v1"; empty: could not be read
  std::string interface;  ///< "eth0"; empty: could not be read
};

/// `hardware` must outlive the result. For each NIC whose ports can't be listed, there is an
/// unknown finding of `check` in `findings`.
[[nodiscard]] std::vector<Port> ports_of(Evidence& machine, const Hardware& hardware,
                                         const std::string& check, std::vector<Finding>& findings);

/// Those that are active. Also of a port whose state or kind of link can't be read there is an
/// unknown finding.
[[nodiscard]] std::vector<Port> active_ports(Evidence& machine, const Hardware& hardware,
                                             const std::string& check,
                                             std::vector<Finding>& findings);

/// The GID table, by its indices; `error` is that of the first entry that could not be read.
[[nodiscard]] std::vector<Gid> gids_of(Evidence& machine, const Port& port, int& error);

/// The network interface of a port.
struct Interface {
  int error = 0;     ///< errno: a file that would tell could not be read
  std::string name;  ///< "eth0"; empty: there is none, or it can't be told
};

/// A name that is none (is_device_name()) is left out.
[[nodiscard]] Interface interface_of(Evidence& machine, const Port& port);

/// A port as `hbmwire info --json` has it; null where it does not.
[[nodiscard]] const Json& told_of(const Port& port);

}  // namespace hbmwire::tools::doctor
