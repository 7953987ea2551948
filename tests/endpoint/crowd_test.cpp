// SPDX-License-Identifier: MIT
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "listening_port.hpp"
#include "stranger.hpp"

/// More peers than a listener accepts at a time.
namespace hbmwire::test {
namespace {

TEST(Crowd, FiveHundredPeersWaitInTheKernelsQueue) {
  const ListeningPort port;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port.listener->port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<Fd> sockets;
  for (int i = 0; i < 500; ++i) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto* const where = reinterpret_cast<const sockaddr*>(&to);
    EXPECT_EQ(::connect(sockets.back().get(), where, sizeof to), -1);
    EXPECT_EQ(errno, EINPROGRESS);
  }
  // If the kernel's queue were full, a peer would connect only when its kernel tries again, after a
  // second.
  const Deadline deadline = Deadline::after(900ms);
  const auto is_connected = [](const Fd& socket) {
    pollfd state{socket.get(), POLLOUT, 0};
    return ::poll(&state, 1, 0) == 1 && (state.revents & POLLOUT) != 0;
  };
  std::ptrdiff_t connected = 0;
  while (connected < std::ssize(sockets) && !deadline.passed())
    connected = std::ranges::count_if(sockets, is_connected);
  EXPECT_EQ(connected, std::ssize(sockets));
}

TEST(Crowd, PeersThatSpeakKeepTheirPlaces) {
  ListeningPort port({.max_handshakes = 2});
  const std::string greeting("hbmw-ep\n", 8);
  std::array<Stranger, 2> first{Stranger(port.listener->port()), Stranger(port.listener->port())};
  port.drive(20ms);
  const Stranger third(port.listener->port());
  // Each letter renews the half second for which a silent peer keeps its place.
  for (const char letter : greeting) {
    for (const Stranger& each : first) each.say({letter});
    port.drive(100ms);
  }
  for (const Stranger& each : first) EXPECT_FALSE(each.is_let_go());
  EXPECT_FALSE(third.is_let_go()) << "the third peer waits in the kernel's queue";
}

TEST(Crowd, ASilentPeerLosesItsPlaceAndNoOther) {
  ListeningPort port({.max_handshakes = 2});
  const Stranger silent(port.listener->port());
  const Stranger speaks(port.listener->port());
  port.drive(20ms);
  std::thread speaker([&] {
    for (const char letter : std::string("hbmw-ep\n")) {
      speaks.say({letter});
      std::this_thread::sleep_for(100ms);
    }
  });
  const auto before = std::chrono::steady_clock::now();
  const Endpoint a = value(Endpoint::connect(port.worker, port.at(), within(10s)));
  const auto took = std::chrono::steady_clock::now() - before;
  EXPECT_GT(took, 300ms) << "a silent peer has half a second";
  EXPECT_LT(took, 3s) << "connect() waited for the end of a handshake";
  EXPECT_TRUE(silent.is_let_go());
  EXPECT_FALSE(speaks.is_let_go());
  speaker.join();
}

TEST(Crowd, APeerThatSpokeIsNotDroppedBecauseTheListenerWasBusy) {
  ListeningPort port({.max_handshakes = 1});
  const Stranger spoke(port.listener->port());
  port.drive(20ms);
  spoke.say("hbmw");
  const Stranger waits(port.listener->port());
  std::this_thread::sleep_for(700ms);
  port.drive(50ms);
  EXPECT_FALSE(spoke.is_let_go());
}

TEST(Crowd, PeersBeyondThePlacesWaitForAcceptInTheKernelsQueue) {
  ListeningPort port({.max_handshakes = 2});
  std::vector<Endpoint> ends;
  ends.reserve(5);
  for (int i = 0; i < 2; ++i)
    ends.push_back(value(Endpoint::connect(port.worker, port.at(), within(10s))));
  EXPECT_FALSE(Endpoint::connect(port.worker, port.at(), within(200ms))) << "nothing was accepted";
  for (int i = 0; i < 2; ++i) ends.push_back(value(port.listener->accept(within(10s))));
  ends.push_back(value(Endpoint::connect(port.worker, port.at(), within(10s))));
}

}  // namespace
}  // namespace hbmwire::test
