// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {

/// Names that identify the owner of a machine.
struct PrivateNames {
  std::vector<std::string> hosts;
  std::vector<std::string> users;
};

/// The names of the running machine and of the current user.
[[nodiscard]] PrivateNames names_of_this_machine();

/// The record without identifying data, so that it can be shown to others. Addresses, GUIDs and
/// UUIDs become placeholders (placeholders.hpp), host names become "host", user names become
/// "user". Serial numbers, also those in PCI configuration spaces, and vital product data are left
/// out. PCI addresses, names of devices, and versions stay.
[[nodiscard]] Record scrubbed(const Record& record, const PrivateNames& names);

}  // namespace hbmwire::tools::doctor
