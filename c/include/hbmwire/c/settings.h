// SPDX-License-Identifier: MIT
// The settings of the user, and host and port as text.
#ifndef HBMWIRE_C_SETTINGS_H
#define HBMWIRE_C_SETTINGS_H

#include "hbmwire/c/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The settings of the user (docs/settings.md), as they were at the time of the call.
typedef struct hbmwire_settings hbmwire_settings;

/// One setting, as text. The list owns the text.
typedef struct hbmwire_setting {
  size_t struct_size;         ///< set by hbmwire_setting_init()
  const char* name;           ///< "HBMWIRE_GAUDI_DMABUF"
  const char* choices;        ///< "yes|no|try"
  const char* help;           ///< a sentence without its full stop
  const char* default_value;  ///< the value if nothing sets it
  const char* value;          ///< as it was written
  const char* source;         ///< "default", "environment", or "PATH:LINE" of the settings file
} hbmwire_setting;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_setting_init(hbmwire_setting* setting, size_t struct_size);

/// Checks that the settings of the environment, and of the file that it names, can be read. Errors:
/// HBMWIRE_STAGE_CONFIGURE (an invalid value, an unknown name), or why the file can't be read.
HBMWIRE_C_API hbmwire_status hbmwire_settings_check(hbmwire_error* error);

/// Every setting, the source of its value, and its purpose.
HBMWIRE_C_API hbmwire_status hbmwire_settings_describe(hbmwire_settings** settings,
                                                       hbmwire_error* error);

/// How many there are.
HBMWIRE_C_API size_t hbmwire_settings_count(const hbmwire_settings* settings);

/// The one at `index`. Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_settings_get(const hbmwire_settings* settings, size_t index,
                                                  hbmwire_setting* setting, hbmwire_error* error);

/// Ends the list and all its text.
HBMWIRE_C_API void hbmwire_settings_free(hbmwire_settings* settings);

/// Splits "node2:7000", "[::1]:7000", "tcp://node2:7000" into host and port. The host is cut to
/// `capacity`, with its NUL. `default_port` is the port if the text has none; HBMWIRE_UNSET: the
/// text must have one. Errors: HBMWIRE_INVALID_ARGUMENT.
HBMWIRE_C_API hbmwire_status hbmwire_split_host_port(const char* text, int32_t default_port,
                                                     char* host, size_t capacity, uint16_t* port,
                                                     hbmwire_error* error);

/// "host:port", an IPv6 address in brackets. As hbmwire_error_describe().
HBMWIRE_C_API size_t hbmwire_join_host_port(const char* host, uint16_t port, char* text,
                                            size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
