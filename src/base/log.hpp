// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire {

/// One line on standard error: "hbmwire: <call> <what>: <errno in words>" (0: without). For
/// failures that nobody can be handed, above all those of destructors. Thread-safe; keeps errno.
void log_warning(const char* call, const char* what, int error_number) noexcept;

}  // namespace hbmwire
