// SPDX-License-Identifier: MIT
#include "emulation/common/stopped.hpp"

#include <unistd.h>

#include "emulation/common/thread_status.hpp"

namespace hbmwire::emulation {
bool is_stopped(std::int32_t id) noexcept {
  if (id <= 0) return false;
  // strace stops a process only briefly at each of its system calls; a debugger stops it for long.
  constexpr int kLooks = 20;
  constexpr useconds_t kBetweenUs = 1000;
  char state = thread_status(id).state;
  for (int look = 1; look < kLooks && state == 't'; ++look) {
    ::usleep(kBetweenUs);
    state = thread_status(id).state;
  }
  return state == 'T' || state == 't';
}

}  // namespace hbmwire::emulation
