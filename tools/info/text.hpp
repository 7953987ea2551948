// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/settings.hpp"

#include "tools/common/output.hpp"
#include "tools/info/machine.hpp"

// What `hbmwire info` prints for people.
namespace hbmwire::tools {

/// A few lines: what is there, and what is not.
void print_overview(Output& output, const Machine& machine,
                    const std::vector<SettingInfo>& settings);

/// `-d`: all of it, with the sentence that says why something is missing.
void print_devices(Output& output, const Machine& machine);

/// `-c`: a settings file (HBMWIRE_CONFIG) that would make the settings what they are.
void print_settings(Output& output, const std::vector<SettingInfo>& settings);

/// "100 Gb/s", "2.5 Gb/s"; "unknown rate" for 0.
std::string link_rate_text(std::uint64_t bits_per_second);

}  // namespace hbmwire::tools
