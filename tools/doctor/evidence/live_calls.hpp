// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tools/common/output.hpp"

// The calls of evidence.hpp on the machine that runs. Each gives {"value": ...} or
// {"error": ERRNO}, some with a "text" beside the error.
namespace hbmwire::tools::doctor {

/// Those without an argument, by name.
[[nodiscard]] std::map<std::string, std::function<Json()>> standard_calls();

/// Those with one: "modinfo" and "ethtool". Another one is ENOSYS.
[[nodiscard]] Json call_about(const std::string& call, const std::string& argument);

[[nodiscard]] Json fork_state();  ///< "fork"

[[nodiscard]] Json hwloc_xml();  ///< "hwloc"

/// "modinfo NAME". Errors: ENOENT: no such module is installed; ENOSYS: modinfo(8) is not;
/// ETIMEDOUT: it did not end in time.
[[nodiscard]] Json module_info(const std::string& name);

/// "ethtool NAME". Errors: those of the ioctl(2): ENODEV, EOPNOTSUPP.
[[nodiscard]] Json interface_statistics(const std::string& name);

}  // namespace hbmwire::tools::doctor
