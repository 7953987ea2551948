// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

/// Owner of one file descriptor; closing it drops a flock only when no process holds a duplicate.
class Fd {
 public:
  Fd() = default;

  explicit Fd(int fd) noexcept : fd_(fd) {}

  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  ~Fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }

  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

  void reset() noexcept;
  /// Drops a flock at once, also when a forked process has inherited the descriptor.
  void unlock() const noexcept;

 private:
  int fd_ = -1;
};

/// Whether to wait for a lock that another process has; `until_signal`: as long as no signal that
/// would end this process has come (EINTR; held_signals.hpp).
enum class Wait : std::uint8_t { no, yes, until_signal };

/// The exclusive lock of a file that its holders may delete: the file that is locked is the one
/// that `path` names, or nothing is returned. `create` makes it when it is missing.
std::optional<Fd> lock_exclusively(const std::filesystem::path& path, Wait wait, bool create);

/// Opens `path`, locks it shared and moves the descriptor to a high number without close-on-exec:
/// every process that descends from this one then keeps the lock, until it ends or closes the
/// descriptor itself.
Result<Fd> hold_for_descendants(const std::filesystem::path& path);

}  // namespace hbmwire::emulation::tool
