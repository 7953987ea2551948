// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <stdexcept>

#include "emulation/tests/nic/endpoint.hpp"

/// Tests with two processes. The child is forked and opens a NIC of its own.
namespace hbmwire::test {

/// A socket between the two processes, for plain values.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}

  template <typename T>
  void send(const T& value) const {
    if (::write(fd_.get(), &value, sizeof value) != static_cast<ssize_t>(sizeof value))
      throw std::runtime_error("line");
  }

  template <typename T>
  T receive() const {
    T value{};
    if (::recv(fd_.get(), &value, sizeof value, MSG_WAITALL) !=
        static_cast<ssize_t>(sizeof value)) {
      throw std::runtime_error("line is down");
    }
    return value;
  }

  /// Sends this side's address and returns the other side's.
  [[nodiscard]] Address exchange(const Address& mine) const {
    send(mine);
    return receive<Address>();
  }

 private:
  Fd fd_;
};

/// A forked process that runs `body` with its end of the line. It exits with 0, with 1 after an
/// exception, or with 2 after a failed expectation. The destructor kills it if it was not joined.
class Child {
 public:
  explicit Child(const std::function<void(const Line&)>& body) : line_(-1) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      int status = 1;
      try {
        const Line line(ends[1]);
        body(line);
        status = ::testing::Test::HasFailure() ? 2 : 0;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
      }
      ::_exit(status);
    }
    ::close(ends[1]);
    line_ = Line(ends[0]);
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ~Child() {
    if (pid_ > 0) {
      kill();
      join();
    }
  }

  [[nodiscard]] const Line& line() const { return line_; }

  [[nodiscard]] pid_t pid() const { return pid_; }

  void kill() const { ::kill(pid_, SIGKILL); }

  /// Waits for its end. Returns its exit status, or minus the signal that ended it.
  int join() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  Line line_;
  pid_t pid_ = 0;
};

}  // namespace hbmwire::test
