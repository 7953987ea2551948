// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <new>
#include <string>
#include <string_view>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

// What the library says to people, by the way of hbmwire/log.hpp. Never on the data path.
namespace hbmwire {

/// Whether a line of this level would be heard: ask before making one that costs something.
[[nodiscard]] bool log_wanted(LogLevel level) noexcept;

/// The line that `make()` gives, if it would be heard. Where there is no memory for it there is no
/// line: a failure is logged where it can't be returned, so that nothing may be thrown instead.
template <std::invocable Make>
void log_line(LogLevel level, const Make& make) noexcept {
  if (!log_wanted(level)) return;
  try {
    const std::string text = make();
    log_line(level, text);
  } catch (const std::bad_alloc&) {
    return;
  }
}

/// "<call> <what>: <errno in words>" (0: without). For failures that nobody can be handed, above
/// all those of destructors.
void log_warning(const char* call, const char* what, int error_number) noexcept;

/// What a Context's settings say; set_log_level() of the program stays.
void use_log_level(LogLevel level) noexcept;

}  // namespace hbmwire
