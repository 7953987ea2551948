// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "hbmwire/settings.hpp"

// What the library says to people, by the way of hbmwire/log.hpp. Never on the data path.
namespace hbmwire {

/// Whether a line of this level would be heard: ask before making one that costs something.
[[nodiscard]] bool log_wanted(LogLevel level) noexcept;

/// One line, in lower case and without a full stop. Thread-safe; keeps errno. Lines that nobody
/// wants are dropped.
void log_line(LogLevel level, std::string_view text) noexcept;

/// "<call> <what>: <errno in words>" (0: without). For failures that nobody can be handed, above
/// all those of destructors.
void log_warning(const char* call, const char* what, int error_number) noexcept;

/// What a Context's settings say; set_log_level() of the program stays.
void use_log_level(LogLevel level) noexcept;

}  // namespace hbmwire
