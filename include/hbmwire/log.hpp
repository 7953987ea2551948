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

/// Takes one line, without its newline, that the library has to say. Called in whichever thread has
/// something to say, in several at once; must not throw. May call the library.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

/// Where the library's lines go from now on, in the whole process: what fails in a destructor has
/// nobody else to tell. An empty sink: standard error, as at the start, with "hbmwire: warn: "
/// before each line. Thread-safe; a line under way in another thread may still reach the sink
/// before. Errors: Errc::exhausted, Stage::configure (no memory): they go where they went.
HBMWIRE_API Result<void> set_log_sink(LogSink sink);

/// How much is said from now on, in the whole process, whatever HBMWIRE_LOG_LEVEL says. Without
/// this call that variable decides: as it is when the first line is due, and whenever a Context is
/// made. Thread-safe.
HBMWIRE_API void set_log_level(LogLevel level) noexcept;

/// Says a line as the library says its own: in lower case and without a full stop, if lines of this
/// level are heard. For programs that have something of the same kind to say. Thread-safe; keeps
/// errno.
HBMWIRE_API void log_line(LogLevel level, std::string_view text) noexcept;

}  // namespace hbmwire
