// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

/// Owns a file descriptor. Closing it releases a flock only if no process holds a duplicate.
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
  /// Releases a flock at once, even if a forked process has inherited the descriptor.
  void unlock() const noexcept;

 private:
  int fd_ = -1;
};

/// Whether to wait for a lock that another process has. With `until_signal` the wait ends (EINTR)
/// when a signal has come that would end this process (held_signals.hpp).
enum class Wait : std::uint8_t { no, yes, until_signal };

/// Takes the exclusive lock of a file that its holders may delete. If the file was deleted during
/// the wait, tries again with the file that `path` names then, so the locked file is always the one
/// that `path` names. `create` makes a missing file. Returns nullopt with errno on failure.
std::optional<Fd> lock_exclusively(const std::filesystem::path& path, Wait wait, bool create);

/// Opens `path`, locks it shared, and moves the descriptor to a high number without close-on-exec.
/// Every process that descends from this one then keeps the lock, until it ends or closes the
/// descriptor itself.
Result<Fd> hold_for_descendants(const std::filesystem::path& path);

}  // namespace hbmwire::emulation::tool
