// SPDX-License-Identifier: MIT
// Sends tagged messages to and fro, and measures the time of a round trip.
//
//   node2$ ping_pong listen 7000
//   node1$ ping_pong node2:7000
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kRounds = 1000;
constexpr std::uint64_t kBytes = 8;

// The tag of a message: the upper half tells the direction, the lower half the round. A receive for
// any round masks the lower half out.
constexpr std::uint64_t kPing = 1ULL << 32U;
constexpr std::uint64_t kPong = 2ULL << 32U;

/// The number in a message, which is in host memory here. (Device memory works as well; the
/// receiver's NIC then pulls the messages.)
std::uint64_t& number_in(const Region& message) {
  return *reinterpret_cast<std::uint64_t*>(message.host_bytes().data());
}

Result<bool> answer(Endpoint& peer, const Region& message) {
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    // The mask leaves the round out, so any ping matches. value() is the tag of the message.
    HBMWIRE_TRY_ASSIGN(auto ping,
                       peer.receive(message.slice(), {.tag = kPing, .mask = kPing | kPong}));
    HBMWIRE_TRY(ping.wait(10s));
    if (ping.value() != kPing + round) return false;
    ++number_in(message);
    HBMWIRE_TRY_ASSIGN(auto pong, peer.send(message.slice(), kPong + round));
    HBMWIRE_TRY(pong.wait(10s));
  }
  HBMWIRE_TRY(peer.wait_closed(10s));
  return true;
}

Result<bool> play(Endpoint& peer, const Region& message) {
  const auto begun = std::chrono::steady_clock::now();
  Transfer last;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    number_in(message) = round * 1000;
    HBMWIRE_TRY_ASSIGN(auto ping, peer.send(message.slice(), kPing + round));
    HBMWIRE_TRY(ping.wait(10s));  // the memory may be written again
    HBMWIRE_TRY_ASSIGN(last, peer.receive(message.slice(), {.tag = kPong + round}));
    HBMWIRE_TRY(last.wait(10s));
    if (number_in(message) != round * 1000 + 1) return false;
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begun;
  std::printf("%s\n", describe(last.explain()).c_str());
  std::printf("verified, %.1f us a round trip\n", time.count() / static_cast<double>(kRounds));
  return true;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region message,
                     context.allocate_region(MemoryType::host, kBytes, Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    return play(peer, message);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  return answer(peer, message);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: ping_pong listen PORT | ping_pong NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "ping_pong: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
