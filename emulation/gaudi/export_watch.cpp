// SPDX-License-Identifier: MIT
#include "emulation/gaudi/export_watch.hpp"

#include <sys/inotify.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

namespace hbmwire::emulation::gaudi {

int ExportWatch::start() {
  if (fd_ >= 0) return 0;
  std::uint64_t id = 0;
  if (::getrandom(&id, sizeof(id), 0) != static_cast<ssize_t>(sizeof(id))) return -EIO;
  const int fd = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd < 0) return -errno;
  fd_ = fd;
  id_ = id;
  return 0;
}

void ExportWatch::stop() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  id_ = 0;
}

int ExportWatch::add(int memfd) const {
  const std::string path = "/proc/self/fd/" + std::to_string(memfd);
  const int watch = ::inotify_add_watch(fd_, path.c_str(), IN_DELETE_SELF);
  return watch < 0 ? -errno : watch;
}

void ExportWatch::read_events(StateContent& content) const {
  alignas(inotify_event) std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
    if (got <= 0)
      return;  // EAGAIN: nothing more. A queue never overflows: see the size of
               // StateContent::exports
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      at += sizeof(event) + event.len;
      if ((event.mask & IN_DELETE_SELF) == 0) continue;
      for (auto& slot : content.exports) {
        if (slot.live != 0 && slot.watch_id == id_ && slot.watch == event.wd) give_back(slot);
      }
    }
  }
}

std::uint64_t ExportWatch::collect(StateContent& content) const {
  if (fd_ >= 0) read_events(content);
  std::uint64_t live = 0;
  for (auto& slot : content.exports) {
    if (slot.live == 0) continue;
    // Exported by a process that got the card's fd through a socket, and that is gone, its instance
    // with it.
    const bool foreign = slot.watch_id != id_;
    if (foreign && ::kill(slot.watch_process, 0) != 0 && errno == ESRCH) give_back(slot);
    live += slot.live != 0 ? 1 : 0;
  }
  return live;
}

}  // namespace hbmwire::emulation::gaudi
