// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_key.hpp"

#include "peer_side.hpp"
#include "tests/unit/own_network.hpp"
#include "wire/handshake.hpp"
#include "wire/message_header.hpp"
#include "wire/tcp_frame.hpp"

// A peer over TCP that is killed, stopped, cut off, or hostile.
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;
using wire::TcpFrame;

constexpr auto kPeerTimeout = 1s;
constexpr auto kSlack = 1s;                    // extra time for a busy machine
constexpr std::uint64_t kMuch = 64ULL << 20U;  // more than the kernels of both ends can hold

/// An end whose host memory uses TCP. Shared memory, the first choice, would need no action of the
/// peer.
struct Side : PeerSide {
  explicit Side(const PeerProcess& peer,
                const EndpointOptions& options = {.peer_timeout = kPeerTimeout})
      : PeerSide(peer, by_tcp(options), kMuch) {}

  [[nodiscard]] Result<Transfer> put(std::uint64_t bytes = 64) {
    auto started = PeerSide::put(bytes);
    if (started) {
      EXPECT_EQ(started->path(), Path::tcp);
    }
    return started;
  }

  static EndpointOptions by_tcp(EndpointOptions options) {
    options.paths.allow = {Path::tcp};
    return options;
  }
};

TEST(TcpPeer, AKilledPeerIsNoticedByASleeper) {
  PeerProcess peer;
  Side side(peer);
  peer.kill();
  EXPECT_LT(side.until_noticed(), kSlack);
  ASSERT_TRUE(side.endpoint.error());
  EXPECT_EQ(side.endpoint.error()->code, Errc::peer_failed) << describe(*side.endpoint.error());
}

/// The death is noticed as soon as the socket reports it, not only by a periodic look. The test
/// measures this thread's CPU time, which does not grow on a busy machine.
TEST(TcpPeer, AKilledPeerIsNoticedAsSoonAsTheSocketTells) {
  constexpr double kAtOnce_s = 0.06;  // periodic looks come four times a second
  const auto cpu_s = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  for (int round = 0; round < 3; ++round) {
    PeerProcess peer;
    PeerSide side(peer, {.peer_timeout = 30s});
    side.run_for(30ms * round);
    while (!value(side.worker.arm())) {
    }
    peer.kill();
    pollfd told{side.worker.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&told, 1, 10000), 1);
    const double begun = cpu_s();
    while (side.endpoint.phase() == EndpointPhase::ready && cpu_s() - begun < 2)
      side.worker.progress();
    EXPECT_LT(cpu_s() - begun, kAtOnce_s);
    ASSERT_TRUE(side.endpoint.error());
    EXPECT_EQ(side.endpoint.error()->code, Errc::peer_failed) << describe(*side.endpoint.error());
  }
}

TEST(TcpPeer, TransfersToAKilledPeerFail) {
  PeerProcess peer;
  Side side(peer);
  peer.stop();
  std::vector<Transfer> puts;
  for (int i = 0; i < 100; ++i) puts.push_back(value(side.put(PeerProcess::kBytes)));
  peer.kill();
  for (Transfer& put : puts) {
    const auto over = put.wait(20s);
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
    EXPECT_FALSE(put.settled());
  }
}

TEST(TcpPeer, AStoppedPeerIsNotDeclaredDead) {
  PeerProcess peer;
  Side side(peer);
  side.run_for(50ms);
  peer.stop();
  side.run_for(3 * kPeerTimeout);
  ASSERT_EQ(side.endpoint.phase(), EndpointPhase::ready)
      << describe(side.endpoint.error().value_or(Error{}));
  Transfer put = value(side.put());
  side.run_for(100ms);
  EXPECT_FALSE(put.done()) << "a put over TCP needs the peer's progress";
  peer.go_on();
  good(put.wait(20s));
}

TEST(TcpPeer, AStoppedPeerIsAwaitedNoLongerThanTheOperationTimeout) {
  PeerProcess peer;
  Side side(peer, {.peer_timeout = kPeerTimeout, .operation_timeout = 400ms});
  side.run_for(50ms);
  peer.stop();
  Transfer put = value(side.put());
  const auto begun = Clock::now();
  const auto over = put.wait(20s);
  EXPECT_GE(Clock::now() - begun, 400ms);
  EXPECT_LT(Clock::now() - begun, 500ms + kPeerTimeout + kSlack);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
  EXPECT_EQ(over.error().hint, Hint::peer_unsettled);
  EXPECT_FALSE(put.settled());
  peer.go_on();
}

TEST(TcpPeer, AStoppedPeerWithManyTransfersIsNotDeclaredDead) {
  PeerProcess peer;
  Side side(peer);
  side.memory.fill(3);
  peer.stop();
  std::vector<Transfer> puts;
  for (int i = 0; i < 64; ++i) puts.push_back(value(side.put(PeerProcess::kBytes)));
  side.run_for(9s);  // TCP itself would give up after 8 s, as the handshake configures it
  ASSERT_EQ(side.endpoint.phase(), EndpointPhase::ready)
      << describe(side.endpoint.error().value_or(Error{}));
  peer.go_on();
  for (Transfer& put : puts) good(put.wait(20s));
  EXPECT_GT(peer.changed_bytes(), PeerProcess::kBytes / 2);
}

TEST(TcpPeer, ATransferCancelledWhileThePeerIsStoppedReportsUnsettled) {
  PeerProcess peer;
  Side side(peer);
  side.run_for(50ms);
  peer.stop();
  Transfer put = value(side.put());
  const auto begun = Clock::now();
  const auto cancelled = put.cancel();
  EXPECT_LT(Clock::now() - begun, kPeerTimeout + kSlack);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().hint, Hint::peer_unsettled);
  EXPECT_FALSE(put.settled());
  peer.go_on();
}

/// Runs in a network of its own, with or without a put in flight. Returns 0 if the cut was noticed
/// in time, 1 if it was noticed late, 2 or 4 for a wrong code or hint, and 3 if the put succeeded
/// or settled.
int notice_the_cut(bool busy) {
  PeerProcess peer;
  Side side(peer);
  side.run_for(50ms);
  if (!set_loopback(false)) return kNoNetwork;
  std::optional<Transfer> put;
  if (busy) put = value(side.put());
  const auto took = side.until_noticed();
  if (took > kPeerTimeout + kSlack) return 1;
  if (side.endpoint.error()->code != Errc::peer_failed) return 2;
  if (side.endpoint.error()->hint != Hint::peer_gone) return 4;
  if (!put) return 0;
  const auto over = put->wait(20s);
  return over || put->settled() ? 3 : 0;
}

TEST(TcpPeer, APeerThatIsCutOffIsNoticedWithoutTransfers) {
  expect_in_own_network([] { return notice_the_cut(false); });
}

TEST(TcpPeer, APeerThatIsCutOffLeavesATransferUnsettledInTime) {
  expect_in_own_network([] { return notice_the_cut(true); });
}

/// The kernel has no room for the last puts, and the peer receives nothing. Returns 0 if the
/// endpoint ends by its operation timeout anyway.
int end_by_the_operation_timeout() {
  PeerProcess peer;
  // A long peer_timeout, or TCP's own check of the peer would end the endpoint first.
  Side side(peer, {.peer_timeout = 20s, .operation_timeout = 2s});
  peer.stop();
  std::vector<Transfer> puts;
  for (int i = 0; i < 64; ++i) puts.push_back(value(side.put(PeerProcess::kBytes)));
  side.run_for(500ms);
  if (!set_loopback(false)) return kNoNetwork;
  const auto took = side.until_noticed();
  if (took > 2s + 2 * kSlack) return 1;
  if (side.endpoint.error()->code != Errc::timed_out) return 2;
  return puts.back().done() && puts.back().settled() ? 3 : 0;
}

TEST(TcpPeer, APeerThatIsCutOffAndHasNoRoomIsAwaitedNoLongerThanTheOperationTimeout) {
  expect_in_own_network([] { return end_by_the_operation_timeout(); });
}

/// Returns 0 if the endpoint outlasts 300 ms without a network, although `peer_timeout` is shorter:
/// TCP retransmits only after some hundred milliseconds.
int outlast_an_interruption() {
  PeerProcess peer;
  Side side(peer, {.peer_timeout = 100ms});
  side.run_for(50ms);
  if (!set_loopback(false)) return kNoNetwork;
  side.run_for(300ms);
  const bool is_ready = side.endpoint.phase() == EndpointPhase::ready;
  if (!set_loopback(true)) return 2;
  return is_ready ? 0 : 1;
}

TEST(TcpPeer, AnInterruptionOf300MillisecondsEndsNothing) {
  expect_in_own_network([] { return outlast_an_interruption(); });
}

/// Completes the handshake as an endpoint without a NIC, and then sends arbitrary bytes.
class RawPeer {
 public:
  explicit RawPeer(std::uint16_t port) : socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    auto handshake = value(wire::Handshake::create(wire::Handshake::Side::connecting, "there", {}));
    wire::EndpointOffer own;
    own.control.queue_pair = 1;
    own.data.incarnation = own.control.incarnation = 77;
    own.data.max_message_bytes = own.control.max_message_bytes = 1 << 20U;
    own.receive_depth = 8;
    handshake.offer(own);
    using Step = wire::Handshake::Step;
    while (handshake.step() != Step::done || !handshake.to_send().empty()) {
      const auto bytes = handshake.to_send();
      if (!bytes.empty()) {
        say(bytes);
        handshake.sent(bytes.size());
      } else if (handshake.step() == Step::has_offer) {
        EXPECT_TRUE(handshake.theirs().over_tcp());
        handshake.confirm();
      } else {
        std::array<std::byte, 512> in;
        const auto got =
            ::recv(socket_.get(), in.data(), std::min(handshake.wanted(), in.size()), 0);
        EXPECT_GT(got, 0);
        if (got <= 0) break;
        handshake.take(std::span(in).first(static_cast<std::size_t>(got)));
      }
    }
  }

  void say(std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  void say(TcpFrame frame, std::size_t follows = 0, std::uint8_t byte = 0) {
    frame.length = static_cast<std::uint32_t>(follows);
    std::array<std::byte, wire::kTcpFrameBytes> header;
    encode(frame, header.data());
    say(header);
    const std::vector<std::byte> bytes(follows, std::byte{byte});
    if (follows != 0) say(bytes);
  }

  void say_message(const wire::MessageHeader& message, std::span<const std::byte> behind) {
    std::vector<std::byte> bytes(wire::kMessageHeaderBytes);
    encode(message, bytes.data());
    bytes.insert(bytes.end(), behind.begin(), behind.end());
    std::array<std::byte, wire::kTcpFrameBytes> header;
    encode(TcpFrame{.kind = TcpFrame::Kind::message,
                    .length = static_cast<std::uint32_t>(bytes.size())},
           header.data());
    say(header);
    say(bytes);
  }

  /// The next frame of `kind`, without the bytes after it.
  TcpFrame hear(TcpFrame::Kind kind) {
    for (;;) {
      std::array<std::byte, wire::kTcpFrameBytes> header;
      if (::recv(socket_.get(), header.data(), header.size(), MSG_WAITALL) !=
          static_cast<ssize_t>(header.size()))
        return {};
      const auto frame = wire::decode_tcp_frame(header);
      if (!frame) return {};
      std::vector<std::byte> rest(frame->length);
      if (!rest.empty()) ::recv(socket_.get(), rest.data(), rest.size(), MSG_WAITALL);
      if (frame->kind == kind) return *frame;
    }
  }

  void leave() { socket_.reset(); }

 private:
  Fd socket_;
};

class HostileTcp : public testing::Test {
 protected:
  HostileTcp() {
    std::thread connecting([&] { raw.emplace(listener.port()); });
    endpoint.emplace(value(listener.accept(within(20s))));
    connecting.join();
  }

  void expect_end(Errc code) {
    const Deadline deadline = Deadline::after(10s);
    while (endpoint->phase() == EndpointPhase::ready && !deadline.passed()) worker.progress();
    while (endpoint->phase() == EndpointPhase::ending && !deadline.passed()) worker.progress();
    ASSERT_EQ(endpoint->phase(), EndpointPhase::failed);
    EXPECT_EQ(endpoint->error()->code, code) << describe(*endpoint->error());
    // Only this endpoint fails.
    std::optional<RawPeer> another;
    std::thread connecting([&] { another.emplace(listener.port()); });
    const Endpoint next = value(listener.accept(within(20s)));
    connecting.join();
    EXPECT_EQ(next.phase(), EndpointPhase::ready);
  }

  Context context = value(Context::create());
  Worker worker = value(Worker::create(context));
  Listener listener = value(
      Listener::create(worker, {.address = "127.0.0.1", .endpoint = {.peer_timeout = 200ms}}));
  std::optional<RawPeer> raw;
  std::optional<Endpoint> endpoint;
};

TEST_F(HostileTcp, JunkEndsTheEndpoint) {
  raw->say(std::vector<std::byte>(100, std::byte{0x55}));
  expect_end(Errc::protocol);
}

TEST_F(HostileTcp, AMalformedMessageEndsTheEndpoint) {
  raw->say({.kind = TcpFrame::Kind::message}, 100, 0x55);
  expect_end(Errc::protocol);
}

TEST_F(HostileTcp, AMessageLongerThanItsPlaceEndsTheEndpoint) {
  raw->say({.kind = TcpFrame::Kind::message}, 100000, 0);
  expect_end(Errc::protocol);
}

TEST_F(HostileTcp, AMalformedControlMessageEndsTheEndpoint) {
  raw->say({.kind = TcpFrame::Kind::control}, 9, 0xff);
  expect_end(Errc::protocol);
}

TEST_F(HostileTcp, AMessageInsteadOfAFrameEndsTheEndpoint) {
  wire::MessageHeader asks;
  asks.kind = wire::MessageHeader::Kind::get;
  asks.id = 1;
  asks.tag = 1234;
  asks.length = 8;
  asks.address = 4096;
  raw->say_message(asks, std::array<std::byte, wire::kPlaceBytes>{});
  expect_end(Errc::protocol);
}

TEST_F(HostileTcp, TheEndOfAnUnrequestedTransferEndsTheEndpoint) {
  raw->say({.kind = TcpFrame::Kind::done, .number = 0});
  expect_end(Errc::protocol);
}

TEST_F(HostileTcp, AnUnrequestedRefusalEndsTheEndpoint) {
  raw->say({.kind = TcpFrame::Kind::failed, .status = TcpFrame::Status::denied, .number = 3});
  expect_end(Errc::protocol);
}

TEST_F(HostileTcp, UnrequestedDataEndsTheEndpoint) {
  raw->say({.kind = TcpFrame::Kind::data, .flags = TcpFrame::kLast, .number = 0}, 8, 1);
  expect_end(Errc::protocol);
}

TEST_F(HostileTcp, DataForARequestWithoutDataEndsTheEndpoint) {
  const Memory memory(context, MemoryType::host, 64);
  Transfer send = value(endpoint->send(memory.slice(0, 8), {.level = CompletionLevel::arrived}));
  raw->hear(TcpFrame::Kind::message);
  Transfer flush = value(endpoint->flush());
  const TcpFrame asked = raw->hear(TcpFrame::Kind::write);
  raw->say({.kind = TcpFrame::Kind::data, .flags = TcpFrame::kLast, .number = asked.number}, 8, 1);
  expect_end(Errc::protocol);
  EXPECT_FALSE(flush.wait(1s));
  EXPECT_FALSE(send.wait(1s));
}

TEST_F(HostileTcp, AKeyThatIsNotThePeersIsRefused) {
  const Memory memory(context, MemoryType::host, 64);
  const MemoryKey key = value(MemoryKey::pack(memory.region()));
  const auto remote = endpoint->remote(value(RemoteKey::unpack(key.bytes())));
  ASSERT_FALSE(remote) << "a key of this process";
  EXPECT_EQ(remote.error().hint, Hint::memory_key_other_process);
}

TEST_F(HostileTcp, AWriteByNoKeyIsRefusedAndNothingBehindItIsDone) {
  Memory memory(context, MemoryType::host, 64);
  memory.fill(1);
  raw->say({.kind = TcpFrame::Kind::write,
            .flags = TcpFrame::kLast,
            .number = 5,
            .address = memory.region().address(),
            .key = 1234},
           8, 0xee);
  raw->say({.kind = TcpFrame::Kind::write, .flags = TcpFrame::kLast, .number = 6});
  TcpFrame answer;
  std::thread hearing([&] { answer = raw->hear(TcpFrame::Kind::failed); });
  const Deadline deadline = Deadline::after(500ms);
  while (!deadline.passed()) worker.progress();
  hearing.join();
  EXPECT_EQ(answer.number, 5U);
  EXPECT_EQ(answer.status, TcpFrame::Status::denied);
  EXPECT_TRUE(same_bytes(memory.contents(), pattern(64, 1)));
  EXPECT_EQ(endpoint->phase(), EndpointPhase::ready) << "it is the peer's failure";
}

TEST_F(HostileTcp, AnUnopenedWindowIsRefused) {
  Memory memory(context, MemoryType::host, 64);
  memory.fill(1);
  raw->say({.kind = TcpFrame::Kind::write,
            .flags = TcpFrame::kLast | TcpFrame::kWindow,
            .number = 1,
            .address = memory.region().address(),
            .key = 1},
           8, 0xee);
  TcpFrame answer;
  std::thread hearing([&] { answer = raw->hear(TcpFrame::Kind::failed); });
  const Deadline deadline = Deadline::after(300ms);
  while (!deadline.passed()) worker.progress();
  hearing.join();
  EXPECT_EQ(answer.status, TcpFrame::Status::denied);
  EXPECT_TRUE(same_bytes(memory.contents(), pattern(64, 1)));
}

TEST_F(HostileTcp, APeerThatClosesWithinAFrameHasEnded) {
  std::array<std::byte, wire::kTcpFrameBytes> header;
  encode(TcpFrame{.kind = TcpFrame::Kind::message, .length = 100}, header.data());
  raw->say(header);
  raw->leave();
  expect_end(Errc::peer_failed);
}

}  // namespace
}  // namespace hbmwire::test
