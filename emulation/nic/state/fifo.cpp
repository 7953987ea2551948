// SPDX-License-Identifier: MIT
#include "emulation/nic/state/fifo.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace hbmwire::emulation::nic {

std::filesystem::path Fifos::path(std::uint32_t slot, std::uint64_t channel) const {
  return processes_ / std::to_string(slot) / std::to_string(channel);
}

int Fifos::create(std::uint32_t slot, std::uint64_t channel) {
  const std::filesystem::path fifo = path(slot, channel);
  if (::mkfifo(fifo.c_str(), 0600) != 0) return -1;
  const std::lock_guard guard(mutex_);
  const int fd = !keep_reserve() ? -1 : ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    ::unlink(fifo.c_str());
    errno = error;
  }
  return fd;
}

int Fifos::open_end(std::uint32_t slot, std::uint64_t channel) const {
  return ::open(path(slot, channel).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

bool Fifos::keep_reserve() {
  if (reserve_ < 0) reserve_ = ::open("/", O_PATH | O_CLOEXEC);
  return reserve_ >= 0;
}

int Fifos::open_end_at_any_price(std::uint32_t slot, std::uint64_t channel) {
  while (true) {
    const int fd = open_end(slot, channel);
    if (fd >= 0 || (errno != EMFILE && errno != ENFILE)) return fd;
    if (!ends_.empty()) {
      ::close(ends_.begin()->second);
      ends_.erase(ends_.begin());
    } else if (reserve_ >= 0) {
      ::close(std::exchange(reserve_, -1));
    } else {
      return -1;
    }
  }
}

Fifos::Written Fifos::write(std::uint32_t slot, std::uint64_t channel,
                            std::span<const std::byte> record) {
  const std::lock_guard guard(mutex_);
  auto end = ends_.find(channel);
  if (end == ends_.end()) {
    if (ends_.size() >= kMostCached) {
      ::close(ends_.begin()->second);
      ends_.erase(ends_.begin());
    }
    const int fd = open_end_at_any_price(slot, channel);
    if (fd < 0) return Written::gone;
    end = ends_.emplace(channel, fd).first;
  }
  return ::write(end->second, record.data(), record.size()) < 0 ? Written::full : Written::yes;
}

void Fifos::forget(std::uint64_t channel) {
  const std::lock_guard guard(mutex_);
  const auto end = ends_.find(channel);
  if (end == ends_.end()) return;
  ::close(end->second);
  ends_.erase(end);
}

void Fifos::remove(std::uint32_t slot, std::uint64_t channel) {
  forget(channel);
  ::unlink(path(slot, channel).c_str());
}

}  // namespace hbmwire::emulation::nic
