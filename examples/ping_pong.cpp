// SPDX-License-Identifier: MIT
// Tagged messages, to and fro: how long a round trip takes.
//
//   node2$ ping_pong listen 7000
//   node1$ ping_pong node2:7000
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr int kRounds = 1000;
constexpr std::uint64_t kBytes = 8;

// A tag says what a message is. Here the upper half says which way it goes, the lower one which
// round it is of; a receive that is for any round masks that out.
constexpr std::uint64_t kPing = 1ULL << 32U;
constexpr std::uint64_t kPong = 2ULL << 32U;

/// Some registered host memory. (Device memory goes as well; the messages are then pulled by the
/// receiver's NIC.)
struct Message {
  static Result<Message> make(const Context& context) {
    HBMWIRE_TRY_ASSIGN(const Allocation memory, context.allocate(MemoryType::host, kBytes));
    HBMWIRE_TRY_ASSIGN(const Region region, context.register_memory(memory, Access::local_write));
    return Message{region};
  }

  [[nodiscard]] Slice slice() const { return region.slice(0, kBytes); }

  void set(std::uint64_t number) const {
    std::memcpy(reinterpret_cast<void*>(region.address()), &number, kBytes);
  }

  [[nodiscard]] std::uint64_t number() const {
    std::uint64_t number = 0;
    std::memcpy(&number, reinterpret_cast<const void*>(region.address()), kBytes);
    return number;
  }

  Region region;
};

Result<void> expect(bool right) {
  if (right) return {};
  return tl::make_unexpected(make_error(Errc::data_mismatch, Stage::verify, "comparing"));
}

Result<void> answer(Endpoint& peer, const Message& message) {
  for (int round = 0; round < kRounds; ++round) {
    // Any ping: the mask leaves the round out; value() is the tag that came.
    HBMWIRE_TRY_ASSIGN(Transfer ping,
                       peer.receive(message.slice(), {.tag = kPing, .mask = kPing | kPong}));
    HBMWIRE_TRY(ping.wait(10s));
    HBMWIRE_TRY(expect(ping.value() == kPing + static_cast<std::uint64_t>(round)));
    message.set(message.number() + 1);
    HBMWIRE_TRY_ASSIGN(Transfer pong,
                       peer.send(message.slice(), kPong + static_cast<std::uint64_t>(round)));
    HBMWIRE_TRY(pong.wait(10s));
  }
  return {};
}

Result<void> play(Endpoint& peer, const Message& message) {
  const auto begun = std::chrono::steady_clock::now();
  Transfer last;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    message.set(round * 1000);
    HBMWIRE_TRY_ASSIGN(Transfer ping, peer.send(message.slice(), kPing + round));
    HBMWIRE_TRY(ping.wait(10s));  // the memory may be written again
    HBMWIRE_TRY_ASSIGN(last, peer.receive(message.slice(), TagMatch{.tag = kPong + round}));
    HBMWIRE_TRY(last.wait(10s));
    HBMWIRE_TRY(expect(message.number() == round * 1000 + 1));
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begun;
  std::printf("%s\n", describe(last.explain()).c_str());
  std::printf("verified, %.1f us a round trip\n", time.count() / kRounds);
  return {};
}

Result<void> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Message message, Message::make(context));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer,
                       Endpoint::connect(worker, arguments.front(), {Deadline::after(10s)}));
    return play(peer, message);
  }
  HBMWIRE_TRY_ASSIGN(
      Listener listener,
      Listener::create(worker, {.port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)))}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept({Deadline::after(30s)}));
  HBMWIRE_TRY(answer(peer, message));
  while (peer.phase() == EndpointPhase::ready) HBMWIRE_TRY(worker.wait({Deadline::after(10s)}));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: ping_pong listen PORT | ping_pong NODE:PORT\n");
    return 2;
  }
  const auto done = run({argv + 1, argv + argc});
  if (!done) std::fprintf(stderr, "ping_pong: %s\n", describe(done.error()).c_str());
  return done ? 0 : 1;
}
