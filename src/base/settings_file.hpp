// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"

namespace hbmwire {

/// One line of a settings file.
struct SettingLine {
  std::string name;
  std::string value;  ///< may be empty
  std::string place;  ///< "PATH:LINE"
};

/// Reads lines "NAME=VALUE". Blanks around both mean nothing, nor do empty lines; "#" begins a
/// comment where a line or a blank stands before it. What the names mean is not looked at. Errors:
/// Stage::configure, Errc::invalid_argument, with file and line.
Result<std::vector<SettingLine>> parse_settings(std::string_view text, std::string_view path);

/// The same of a file, which must be a regular one of at most 1 MiB. Errors besides: those of
/// open(2) and read(2).
Result<std::vector<SettingLine>> read_settings_file(const std::string& path);

/// "PATH:LINE" at the length that an Error's subject can hold: of a long path the end counts.
std::string fit_subject(std::string_view place);

}  // namespace hbmwire
