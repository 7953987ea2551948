// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/settings.hpp"

namespace hbmwire {

/// "off", "error", "warn", "info", "debug".
[[nodiscard]] HBMWIRE_API std::string_view to_string(LogLevel level) noexcept;

/// Takes the lines of the library's log, one at a time and without a newline. Called in the thread
/// that logs, so several calls may run at once. Must not throw. May call the library.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

/// Sends the lines of the log to `sink` from now on, in the whole process. Failures that cannot be
/// returned to a caller, such as those of destructors, are only logged. An empty sink means
/// standard error, as at the start, with "hbmwire: warn: " before each line. Thread-safe; a line
/// that another thread is logging may still reach the previous sink. Errors: Errc::exhausted,
/// Stage::configure (no memory): the sink stays as it was.
HBMWIRE_API Result<void> set_log_sink(LogSink sink);

/// Sets how much is logged from now on, in the whole process, whatever HBMWIRE_LOG_LEVEL says.
/// Without this call that variable decides: it is read when the first line is due, and whenever a
/// Context is made. Thread-safe.
HBMWIRE_API void set_log_level(LogLevel level) noexcept;

/// Logs a line of the program, if lines of this level are logged. The library's own lines are in
/// lower case and without a full stop. Thread-safe; keeps errno.
HBMWIRE_API void log_line(LogLevel level, std::string_view text) noexcept;

}  // namespace hbmwire
