// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/stream.hpp"

/// Tests with a child by fork(2), which has copies of its parent's objects, and exchanges messages
/// with it.
namespace hbmwire::test {

/// Exchanges numbers and bytes with the other process.
class Talk {
 public:
  /// Takes `socket` over, and closes it in the end.
  explicit Talk(int socket) : socket_(socket) {}

  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  ~Talk() { ::close(socket_); }

  void tell(std::uint64_t number) const {
    if (!write_value(socket_, number)) ADD_FAILURE() << "the other process has gone";
  }

  void tell_bytes(std::span<const std::byte> bytes) const {
    tell(bytes.size());
    if (!write_all(socket_, bytes)) ADD_FAILURE() << "the other process has gone";
  }

  [[nodiscard]] std::vector<std::byte> hear_bytes() const {
    // After a failure hear() returns ~0, which is no length.
    constexpr std::uint64_t kMost = 1 << 20;
    std::vector<std::byte> bytes(std::min(hear(), kMost));
    if (!read_all(socket_, bytes, std::chrono::seconds(60)))
      ADD_FAILURE() << "the other process says nothing";
    return bytes;
  }

  [[nodiscard]] bool can_hear() const { return is_readable(socket_); }

  [[nodiscard]] std::uint64_t hear() const {
    std::uint64_t number = 0;
    const auto bytes = std::as_writable_bytes(std::span(&number, 1));
    if (read_all(socket_, bytes, std::chrono::seconds(60))) return number;
    ADD_FAILURE() << "the other process says nothing";
    return ~std::uint64_t{0};
  }

 private:
  int socket_;
};

/// A child that runs `work`. Its failed expectations also fail this test.
class OtherProcess {
 public:
  explicit OtherProcess(const std::function<void(const Talk&)>& work) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
      throw std::runtime_error("socketpair");
    id_ = ::fork();
    if (id_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // A child that hangs ends by itself.
      ::alarm(120);
      ::close(pair[0]);
      const Talk talk(pair[1]);
      work(talk);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(pair[1]);
    talk_ = std::make_unique<Talk>(pair[0]);
  }

  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  ~OtherProcess() {
    if (id_ > 0) kill();
  }

  [[nodiscard]] const Talk& talk() const { return *talk_; }

  [[nodiscard]] pid_t id() const { return id_; }

  /// Stops the child by SIGSTOP, and returns when it has stopped.
  void stop() const {
    ::kill(id_, SIGSTOP);
    int status = 0;
    ::waitpid(id_, &status, WUNTRACED);
  }

  void go_on() const { ::kill(id_, SIGCONT); }

  /// Kills the child, and returns when it has ended but was not reaped.
  void make_zombie() const {
    ::kill(id_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT);
  }

  void kill() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
    id_ = -1;
  }

  /// Expects that the child ends by itself without failures.
  void expect_good() {
    int status = -1;
    ::waitpid(id_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    id_ = -1;
  }

 private:
  pid_t id_ = -1;
  std::unique_ptr<Talk> talk_;
};

}  // namespace hbmwire::test
