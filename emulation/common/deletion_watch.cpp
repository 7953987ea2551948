// SPDX-License-Identifier: MIT
#include "emulation/common/deletion_watch.hpp"

#include <sys/inotify.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace hbmwire::emulation {

int DeletionWatch::start() {
  if (fd_ >= 0) return 0;
  std::uint64_t id = 0;
  if (::getrandom(&id, sizeof(id), 0) != static_cast<ssize_t>(sizeof(id))) return -EIO;
  const int fd = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd < 0) return -errno;
  fd_ = fd;
  id_ = id;
  return 0;
}

void DeletionWatch::stop() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  id_ = 0;
}

int DeletionWatch::add(int memfd) const {
  const std::string path = "/proc/self/fd/" + std::to_string(memfd);
  const int watch = ::inotify_add_watch(fd_, path.c_str(), IN_DELETE_SELF);
  return watch < 0 ? -errno : watch;
}

std::vector<int> DeletionWatch::gone() const {
  std::vector<int> watches;
  if (fd_ < 0) return watches;
  alignas(inotify_event) std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
    // EAGAIN means that no events are left. The queue never overflows, because it has room for more
    // events than there can be exports.
    if (got <= 0) return watches;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      at += sizeof(event) + event.len;
      if ((event.mask & IN_DELETE_SELF) != 0) watches.push_back(event.wd);
    }
  }
}

}  // namespace hbmwire::emulation
