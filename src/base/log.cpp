// SPDX-License-Identifier: MIT
#include "base/log.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace hbmwire {

void log_warning(const char* call, const char* what, int error_number) noexcept {
  const int kept = errno;
  if (error_number == 0) {
    std::fprintf(stderr, "hbmwire: %s %s\n", call, what);
  } else {
    const char* text = strerrordesc_np(error_number);
    std::fprintf(stderr, "hbmwire: %s %s: %s (errno %d)\n", call, what,
                 text != nullptr ? text : "?", error_number);
  }
  errno = kept;
}

}  // namespace hbmwire
