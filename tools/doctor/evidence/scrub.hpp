// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {

/// Names that tell whose machine it is.
struct PrivateNames {
  std::vector<std::string> hosts;
  std::vector<std::string> users;
};

/// Those of the machine and of the user that run.
[[nodiscard]] PrivateNames names_of_this_machine();

/// The record without what identifies a machine, so that it can be shown to others. Addresses,
/// GUIDs and UUIDs are replaced as placeholders.hpp says; host names become "host", user names
/// "user"; serial numbers, also those in PCI configuration spaces, and vital product data are left
/// out. PCI addresses, names of devices, and versions stay.
[[nodiscard]] Record scrubbed(const Record& record, const PrivateNames& names);

}  // namespace hbmwire::tools::doctor
