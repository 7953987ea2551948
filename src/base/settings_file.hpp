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

/// Parses lines "NAME=VALUE". Blanks around name and value are ignored, and so are empty lines. "#"
/// begins a comment at the start of a line or after a blank. Names are not checked here. Errors:
/// Stage::configure, Errc::invalid_argument, with file and line.
Result<std::vector<SettingLine>> parse_settings(std::string_view text, std::string_view path);

/// Reads a file of that format, which must be a regular file of at most 1 MiB. Further errors:
/// those of open(2) and read(2).
Result<std::vector<SettingLine>> read_settings_file(const std::string& path);

/// Shortens "PATH:LINE" to the length of an Error's subject; keeps the end of a long path.
std::string fit_subject(std::string_view place);

}  // namespace hbmwire
