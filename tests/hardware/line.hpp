// SPDX-License-Identifier: MIT
#pragma once

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hbmwire/fd.hpp"

namespace hbmwire::test {

/// One end of a socket through which two processes of one program exchange plain values.
class Line {
 public:
  explicit Line(Fd fd) : fd_(std::move(fd)) {}

  template <class T>
  void send(const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    write(&value, sizeof value);
  }

  void send(const std::vector<std::byte>& bytes) const {
    send(static_cast<std::uint32_t>(bytes.size()));
    write(bytes.data(), bytes.size());
  }

  /// Returns false if the other end is closed.
  template <class T>
  [[nodiscard]] bool next(T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return read(&value, sizeof value);
  }

  template <class T>
  [[nodiscard]] T receive() const {
    T value{};
    if (!next(value)) throw std::runtime_error("the other process has ended");
    return value;
  }

  [[nodiscard]] std::vector<std::byte> receive_bytes() const {
    std::vector<std::byte> bytes(receive<std::uint32_t>());
    if (!read(bytes.data(), bytes.size())) throw std::runtime_error("the other process has ended");
    return bytes;
  }

  /// Ends the connection. The other process notices it, even if children that were forked meanwhile
  /// hold this end, too.
  void end() const { ::shutdown(fd_.get(), SHUT_RDWR); }

 private:
  void write(const void* data, std::size_t size) const {
    if (::send(fd_.get(), data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
      throw std::runtime_error(std::string("the other process: ") + std::strerror(errno));
  }

  [[nodiscard]] bool read(void* data, std::size_t size) const {
    return ::recv(fd_.get(), data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

  Fd fd_;
};

/// A child process that runs `body` and ends with this one. It must be forked before a vendor's
/// library is used: a child of a process that has used CUDA cannot use it.
class ForkedPeer {
 public:
  template <class Body>
  explicit ForkedPeer(Body body) : ForkedPeer(ends()) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ours_.reset();
      ::_exit(run(body, Line(std::move(theirs_))));
    }
    theirs_.reset();
    line_ = Line(std::move(ours_));
  }

  ForkedPeer(const ForkedPeer&) = delete;
  ForkedPeer& operator=(const ForkedPeer&) = delete;

  ~ForkedPeer() {
    line_.end();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] const Line& line() const { return line_; }

 private:
  explicit ForkedPeer(std::array<int, 2> ends) : ours_(ends[0]), theirs_(ends[1]), line_(Fd()) {}

  static std::array<int, 2> ends() {
    std::array<int, 2> pair{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
      throw std::runtime_error(std::string("socketpair: ") + std::strerror(errno));
    return pair;
  }

  template <class Body>
  static int run(Body& body, const Line& line) {
    try {
      body(line);
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "peer: %s\n", error.what());
      return 1;
    }
  }

  Fd ours_;
  Fd theirs_;
  Line line_;
  pid_t pid_ = -1;
};

}  // namespace hbmwire::test
