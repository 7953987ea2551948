// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/settings.hpp"

#include "tools/common/output.hpp"
#include "tools/info/machine.hpp"

// The output of `hbmwire info` for people.
namespace hbmwire::tools {

/// A few lines about the devices and libraries that were found and those that are missing.
void print_overview(Output& output, const Machine& machine,
                    const std::vector<SettingInfo>& settings);

/// `-d`: all details, and the full message if something is missing.
void print_devices(Output& output, const Machine& machine);

/// `-c`: a settings file (HBMWIRE_CONFIG) that would produce the current settings.
void print_settings(Output& output, const std::vector<SettingInfo>& settings);

/// "100 Gb/s", "2.5 Gb/s"; "unknown rate" for 0.
std::string link_rate_text(std::uint64_t bits_per_second);

}  // namespace hbmwire::tools
