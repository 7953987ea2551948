// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <new>
#include <string>
#include <string_view>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

// The library's messages to people, sent as hbmwire/log.hpp says. Never used on the data path.
namespace hbmwire {

/// Whether a line of this level would be logged. Ask before making a line that costs something.
[[nodiscard]] bool log_wanted(LogLevel level) noexcept;

/// Logs the line that `make()` returns, if the level is logged. Without memory for the line,
/// nothing is logged: this is called for failures that cannot be returned, so it must not
/// throw.
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

/// Logs "<call> <what>: <errno in words>"; without the last part if `error_number` is 0. For
/// failures that cannot be returned to a caller, above all those of destructors.
void log_warning(const char* call, const char* what, int error_number) noexcept;

/// Applies the level of a Context's settings, unless the program has called set_log_level().
void use_log_level(LogLevel level) noexcept;

}  // namespace hbmwire
