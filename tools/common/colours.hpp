// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::tools {

// Escape sequences of a terminal. They take no columns; the text between a colour and kPlain does.
inline constexpr const char* kGreen = "\x1b[32m";
inline constexpr const char* kYellow = "\x1b[33m";
inline constexpr const char* kRed = "\x1b[31m";
inline constexpr const char* kPlain = "\x1b[0m";

}  // namespace hbmwire::tools
