// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tools/common/output.hpp"

// The calls of evidence.hpp on the running machine. Each returns {"value": ...} or {"error":
// ERRNO}, some with a "text" beside the error.
namespace hbmwire::tools::doctor {

/// The calls without an argument, by name.
[[nodiscard]] std::map<std::string, std::function<Json()>> standard_calls();

/// The calls with an argument: "modinfo" and "ethtool". Any other name gives ENOSYS.
[[nodiscard]] Json call_about(const std::string& call, const std::string& argument);

[[nodiscard]] Json fork_state();  ///< "fork"

[[nodiscard]] Json hwloc_xml();  ///< "hwloc"

/// "modinfo NAME". Errors: ENOENT (the module is not installed), ENOSYS (modinfo(8) is not
/// installed), ETIMEDOUT (modinfo(8) took too long).
[[nodiscard]] Json module_info(const std::string& name);

/// "ethtool NAME". Errors: those of the ioctl(2), such as ENODEV and EOPNOTSUPP.
[[nodiscard]] Json interface_statistics(const std::string& name);

}  // namespace hbmwire::tools::doctor
