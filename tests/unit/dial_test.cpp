// SPDX-License-Identifier: MIT
#include "wire/dial.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <fstream>

#include "own_network.hpp"

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

// The kernel has only two ports to give to sockets, 40000 and 40001, and 40000 is dialed: a socket
// that gets it connects to itself. Returns 0 if dial() refuses that, else a number for the step.
int dials_a_port_of_its_own() {
  std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40001";
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(40000);
  const auto connects_to_itself = [&] {
    const Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  };
  int own = 0;
  for (int i = 0; i < 50; ++i) own += connects_to_itself() ? 1 : 0;
  if (own == 0) return test::kNoNetwork;  // this kernel gives other ports
  for (int i = 0; i < 50; ++i) {
    const auto dialed = dial("127.0.0.1", 40000, "peer", Deadline::after(std::chrono::seconds(5)));
    if (dialed || dialed.error().hint != Hint::connection_refused) return 1;
  }
  // dial() must not leave the port taken.
  const Fd listening{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  return ::bind(listening.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 ? 0 : 2;
}

TEST(Dial, AConnectionToItselfIsARefusal) { test::expect_in_own_network(dials_a_port_of_its_own); }

}  // namespace
}  // namespace hbmwire::wire
