// SPDX-License-Identifier: MIT
// The lines that the library logs.
#ifndef HBMWIRE_C_LOG_H
#define HBMWIRE_C_LOG_H

#include "hbmwire/c/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How much the library logs: a level includes all levels before it.
typedef int32_t hbmwire_log_level;

enum {
  HBMWIRE_LOG_OFF = 0,    ///< nothing
  HBMWIRE_LOG_ERROR = 1,  ///< failures that no call can return
  HBMWIRE_LOG_WARN = 2,   ///< the default
  HBMWIRE_LOG_INFO = 3,   ///< decisions
  HBMWIRE_LOG_DEBUG = 4,  ///< details
};

/// Takes one line of the log: `length` bytes, without a newline or a NUL. `user` is the argument of
/// hbmwire_set_log_sink(). Called in the thread that logs, so several calls may run at once. May
/// call the library.
typedef void (*hbmwire_log_sink)(void* user, hbmwire_log_level level, const char* line,
                                 size_t length);

/// Sends the lines of the log to `sink` from now on, in the whole process. NULL: to standard error,
/// as at the start. A line that another thread is logging may still reach the previous sink, so its
/// `user` must stay valid. Threads: any. Errors: HBMWIRE_EXHAUSTED.
HBMWIRE_C_API hbmwire_status hbmwire_set_log_sink(hbmwire_log_sink sink, void* user,
                                                  hbmwire_error* error);

/// Sets how much is logged from now on, in the whole process, whatever HBMWIRE_LOG_LEVEL says. A
/// number that is no level changes nothing. Threads: any.
HBMWIRE_C_API void hbmwire_set_log_level(hbmwire_log_level level);

/// Logs a line of the program, if lines of this level are logged. Threads: any.
HBMWIRE_C_API void hbmwire_log_line(hbmwire_log_level level, const char* line);

/// "off", "error", "warn", "info", "debug"; empty for a number that is no level.
HBMWIRE_C_API const char* hbmwire_log_level_name(hbmwire_log_level level);

#ifdef __cplusplus
}
#endif

#endif
