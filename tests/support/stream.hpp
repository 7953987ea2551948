// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <span>

// Sends whole messages over a stream socket between the sides of a test.
namespace hbmwire::test {

/// Returns false if the other side has closed.
[[nodiscard]] inline bool write_all(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

/// Whether data or the other side's end arrives within `time`.
[[nodiscard]] inline bool is_readable(int socket, std::chrono::milliseconds time = {}) {
  pollfd asked{socket, POLLIN, 0};
  return ::poll(&asked, 1, static_cast<int>(time.count())) > 0;
}

/// Returns false if the other side has closed, or sent nothing for `patience`. A negative patience
/// never ends.
[[nodiscard]] inline bool read_all(
    int socket, std::span<std::byte> bytes,
    std::chrono::milliseconds patience = std::chrono::milliseconds(-1)) {
  while (!bytes.empty()) {
    if (!is_readable(socket, patience)) return false;
    const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

/// Sends a value as its bytes: both sides come from one build.
template <class T>
[[nodiscard]] bool write_value(int socket, const T& value) {
  return write_all(socket, std::as_bytes(std::span(&value, 1)));
}

template <class T>
[[nodiscard]] bool read_value(int socket, T& value) {
  return read_all(socket, std::as_writable_bytes(std::span(&value, 1)));
}

}  // namespace hbmwire::test
