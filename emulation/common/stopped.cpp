// SPDX-License-Identifier: MIT
#include "emulation/common/stopped.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>

namespace hbmwire::emulation {
namespace {

/// man 5 proc, the state in /proc/<id>/stat; 0: it is not there.
char state_of(std::int32_t id) noexcept {
  std::array<char, 32> path{"/proc/"};
  char* end = std::to_chars(path.data() + 6, path.data() + path.size() - 6, id).ptr;
  std::memcpy(end, "/stat", 6);
  const int fd = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  // It follows the name, which is in parentheses, may have some of its own, and is 15 bytes at
  // most.
  std::array<char, 64> text{};
  const ssize_t got = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  if (got <= 0) return 0;
  const char* name_end = std::strrchr(text.data(), ')');
  return name_end == nullptr || name_end[1] != ' ' ? '\0' : name_end[2];
}

}  // namespace

bool is_stopped(std::int32_t id) noexcept {
  if (id <= 0) return false;
  // strace stops a process for a moment at each of its system calls, a debugger for long.
  constexpr int kLooks = 20;
  constexpr useconds_t kBetweenUs = 1000;
  char state = state_of(id);
  for (int look = 1; look < kLooks && state == 't'; ++look) {
    ::usleep(kBetweenUs);
    state = state_of(id);
  }
  return state == 'T' || state == 't';
}

}  // namespace hbmwire::emulation
