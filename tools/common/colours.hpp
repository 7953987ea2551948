// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::tools {

// Escapes of a terminal. What stands between a colour and kPlain counts for the width of a column,
// the escapes do not.
inline constexpr const char* kGreen = "\x1b[32m";
inline constexpr const char* kYellow = "\x1b[33m";
inline constexpr const char* kRed = "\x1b[31m";
inline constexpr const char* kPlain = "\x1b[0m";

}  // namespace hbmwire::tools
