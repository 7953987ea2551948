// SPDX-License-Identifier: MIT
#include "emulation/common/thread_status.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace hbmwire::emulation {

ThreadStatus thread_status(std::int32_t thread) noexcept {
  constexpr std::string_view kFolder = "/proc/";
  constexpr char kFile[] = "/stat";
  std::array<char, 32> path{};
  kFolder.copy(path.data(), kFolder.size());
  char* const end =
      std::to_chars(path.data() + kFolder.size(), path.data() + path.size() - sizeof kFile, thread)
          .ptr;
  std::memcpy(end, kFile, sizeof kFile);
  ThreadStatus status;
  const int fd = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    status.is_gone = errno == ENOENT;
    return status;
  }
  std::array<char, 1024> text{};
  const ssize_t got = ::read(fd, text.data(), text.size());
  status.is_gone = got < 0 && errno == ESRCH;
  ::close(fd);
  // The state follows the name, which is in parentheses and may contain some itself. The start time
  // is 19 fields further on.
  std::string_view rest(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) return status;
  rest.remove_prefix(name_end + 2);
  const char state = rest.front();
  for (int field = 0; field < 19; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return status;
    rest.remove_prefix(blank + 1);
  }
  std::uint64_t started = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), started);
  status.started = static_cast<std::uint32_t>(started);
  status.state = state;
  return status;
}

}  // namespace hbmwire::emulation
