// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "hbmwire/settings.hpp"

#include "tools/common/output.hpp"
#include "tools/info/machine.hpp"

// The parts of the object of `hbmwire info --json`, as docs/info.md specifies them.
namespace hbmwire::tools {

/// "version" and "protocols".
Json version_json();

/// "nics", "nics_missing" and "memory".
Json machine_json(const Machine& machine);

/// "settings" and "settings_file".
Json settings_json(const std::vector<SettingInfo>& settings);

}  // namespace hbmwire::tools
