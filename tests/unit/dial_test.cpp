// SPDX-License-Identifier: MIT
#include "wire/dial.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace hbmwire::wire {
namespace {

int longest_segment(int fd) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size), 0);
  return bytes;
}

// Packets of the loopback device may have 65,536 bytes.
TEST(Dial, BoundsTheSegmentsOfBothEnds) {
  Fd listening{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  ASSERT_EQ(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  addrinfo address{};
  address.ai_family = AF_INET;
  address.ai_addr = reinterpret_cast<sockaddr*>(&at);
  address.ai_addrlen = size;
  const auto dialed = start_dial(address, "peer", 1024);
  ASSERT_TRUE(dialed);
  const Fd accepted{::accept(listening.get(), nullptr, nullptr)};
  ASSERT_TRUE(accepted);
  pollfd entry{.fd = dialed->get(), .events = POLLOUT, .revents = 0};
  ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
  EXPECT_LE(longest_segment(dialed->get()), 1024);
  EXPECT_LE(longest_segment(accepted.get()), 1024);
}

}  // namespace
}  // namespace hbmwire::wire
