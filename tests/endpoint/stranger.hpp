// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "hbmwire/fd.hpp"

namespace hbmwire::test {

/// A TCP client that sends arbitrary bytes.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }

  void say(const std::string& text) const {
    ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  /// Whether the other side has closed the connection.
  [[nodiscard]] bool is_let_go() const {
    char byte = 0;
    const ssize_t got = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

 private:
  Fd fd_;
};

}  // namespace hbmwire::test
