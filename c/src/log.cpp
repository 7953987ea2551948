// SPDX-License-Identifier: MIT
#include "hbmwire/log.hpp"

#include "guarded.hpp"
#include "words.hpp"

using namespace hbmwire;

hbmwire_status hbmwire_set_log_sink(hbmwire_log_sink sink, void* user, hbmwire_error* error) {
  return c::run(error, {}, [&]() -> Result<void> {
    if (sink == nullptr) return set_log_sink({});
    return set_log_sink([sink, user](LogLevel level, std::string_view line) {
      sink(user, c::number_of(level), line.data(), line.size());
    });
  });
}

void hbmwire_set_log_level(hbmwire_log_level level) {
  const auto known = c::enum_of(level, LogLevel::debug, "level");
  if (known) set_log_level(*known);
}

void hbmwire_log_line(hbmwire_log_level level, const char* line) {
  const auto known = c::enum_of(level, LogLevel::debug, "level");
  if (known && *known != LogLevel::off && line != nullptr) log_line(*known, line);
}
