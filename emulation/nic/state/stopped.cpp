// SPDX-License-Identifier: MIT
#include "emulation/nic/state/stopped.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>

namespace hbmwire::emulation::nic {

bool is_stopped(std::int32_t id) noexcept {
  if (id <= 0) return false;
  std::array<char, 32> path{"/proc/"};
  char* end = std::to_chars(path.data() + 6, path.data() + path.size() - 6, id).ptr;
  std::memcpy(end, "/stat", 6);
  const int fd = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  // man 5 proc: the state follows the name, which is in parentheses, may have some of its own, and
  // is 15 bytes at most.
  std::array<char, 64> text{};
  const ssize_t got = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  if (got <= 0) return false;
  const char* name_end = std::strrchr(text.data(), ')');
  if (name_end == nullptr || name_end[1] != ' ') return false;
  return name_end[2] == 'T' || name_end[2] == 't';
}

}  // namespace hbmwire::emulation::nic
