// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <utility>

namespace hbmwire::emulation {

/// Owns a file descriptor and closes it.
class OwnedFd {
 public:
  OwnedFd() = default;

  explicit OwnedFd(int fd) : fd_(fd) {}

  OwnedFd(OwnedFd&& other) noexcept : fd_(other.release()) {}

  OwnedFd& operator=(OwnedFd&& other) noexcept {
    reset(other.release());
    return *this;
  }

  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;

  ~OwnedFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }

  int release() { return std::exchange(fd_, -1); }

  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace hbmwire::emulation
