// SPDX-License-Identifier: MIT
#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "internals.hpp"
#include "peer_process.hpp"

/// The end of a large message that no receive takes, and of one whose sender stays silent.
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kLarge = 100'000;

class Unmatched : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override { set_log_sink({}); }

  /// The access to the sender's memory. With all access the receiver reads the message from there,
  /// without it the sender writes the message.
  [[nodiscard]] static Access access() { return GetParam() ? kAll : Access::local_write; }

  static EndpointOptions options(std::chrono::nanoseconds operation_timeout = 30s) {
    EndpointOptions options;
    options.peer_timeout = 400ms;
    options.operation_timeout = operation_timeout;
    return options;
  }

  static void expect_end(Ends& ends, Transfer& transfer, Errc code) {
    const auto over = transfer.poll();
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, code) << describe(over.error());
    EXPECT_EQ(ends.a->phase(), EndpointPhase::failed);
    ends.drive([&] { return ends.b->phase() == EndpointPhase::failed; });
    // The announcement of the message, which had arrived at the peer, is gone.
    Memory target(ends.context, MemoryType::host, kLarge);
    EXPECT_FALSE(ends.b->receive(target.all()));
  }
};

TEST_P(Unmatched, EndsAtTheDeadlineOfWait) {
  Ends ends(options());
  Memory source(ends.context, MemoryType::host, kLarge, access());
  Transfer send = value(ends.a->send(source.all()));
  const auto begun = Clock::now();
  beside(ends.b_worker, [&] { EXPECT_FALSE(send.wait(50ms)); });
  EXPECT_LT(Clock::now() - begun, 400ms);
  EXPECT_TRUE(send.settled());
  expect_end(ends, send, Errc::timed_out);
}

TEST_P(Unmatched, EndsByCancel) {
  Ends ends(options());
  Memory source(ends.context, MemoryType::host, kLarge, access());
  Transfer send = value(ends.a->send(source.all()));
  beside(ends.b_worker, [&] { good(send.cancel()); });
  expect_end(ends, send, Errc::cancelled);
}

TEST_P(Unmatched, EndsByTheOperationTimeout) {
  Ends ends(options(200ms));
  Memory source(ends.context, MemoryType::host, kLarge, access());
  Transfer send = value(ends.a->send(source.all()));
  const auto begun = Clock::now();
  ends.drive([&] { return send.done(); }, 5s);
  EXPECT_GE(Clock::now() - begun, 200ms);
  EXPECT_LT(Clock::now() - begun, 1s);
  expect_end(ends, send, Errc::timed_out);
}

TEST_P(Unmatched, AReceiveMayWaitForLonger) {
  Ends ends(options(50ms));
  Memory target(ends.context, MemoryType::host, kLarge);
  Memory source(ends.context, MemoryType::host, kLarge, access());
  Transfer receive = value(ends.b->receive(target.all()));
  const Deadline later = Deadline::after(200ms);
  ends.drive([&] { return later.passed(); });
  EXPECT_FALSE(receive.done());
  Transfer send = value(ends.a->send(source.all()));
  ends.drive([&] { return send.done() && receive.done(); });
  EXPECT_TRUE(value(receive.poll()));
  EXPECT_TRUE(value(send.poll()));
}

TEST_P(Unmatched, EndsByCloseAtItsDeadline) {
  Ends ends(options());
  Memory source(ends.context, MemoryType::host, kLarge, access());
  Transfer send = value(ends.a->send(source.all()));
  beside(ends.b_worker, [&] {
    const auto closed = ends.a->close(within(50ms));
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code, Errc::timed_out) << describe(closed.error());
  });
  const auto over = send.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
  EXPECT_EQ(ends.a->phase(), EndpointPhase::closed);
}

TEST_P(Unmatched, EndsByThePeersClose) {
  Ends ends(options());
  Memory source(ends.context, MemoryType::host, kLarge, access());
  Transfer send = value(ends.a->send(source.all()));
  beside(ends.a_worker, [&] { static_cast<void>(ends.b->close(within(2s))); });
  ends.drive([&] { return send.done(); });
  const auto over = send.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
}

/// The large message's bytes cannot arrive any more, but the small message after it has arrived.
TEST_P(Unmatched, AClosedEndpointRefusesTheLargeMessageAndGivesTheSmallOne) {
  Ends ends(options());
  Memory source(ends.context, MemoryType::host, kLarge, access());
  Memory target(ends.context, MemoryType::host, kLarge);
  Transfer last = value(ends.b->receive(target.slice(0, 0), TagMatch{1}));
  Transfer large = value(ends.a->send(source.all()));
  Transfer small = value(ends.a->send(source.slice(0, 64)));
  Transfer end = value(ends.a->send(source.slice(0, 0), 1));
  finish(ends, last);
  beside(ends.a_worker, [&] { static_cast<void>(ends.b->close(within(2s))); });
  ASSERT_EQ(ends.b->phase(), EndpointPhase::closed);
  const auto free_receives = [&] {
    const internals::PoolView view = internals::look_at_receives(ends.b_worker);
    return view.posted + view.waiting;
  };
  const std::uint32_t receives = free_receives();
  const std::size_t transfers = internals::look_at(ends.b_worker).free_transfers;
  const auto refused = ends.b->receive(target.all());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::cancelled) << describe(refused.error());
  EXPECT_EQ(free_receives(), receives + 1) << "the announcement lay in a receive";
  EXPECT_EQ(internals::look_at(ends.b_worker).free_transfers, transfers);
  Transfer receive = value(ends.b->receive(target.all()));
  finish(ends, receive);
  EXPECT_EQ(receive.bytes(), 64U);
  EXPECT_FALSE(ends.b->receive(target.all()));
}

TEST_P(Unmatched, EndsWithThePeersProcess) {
  PeerProcess peer;
  const Context context = value(Context::create());
  Worker worker = value(Worker::create(context));
  Memory source(context, MemoryType::host, kLarge, access());
  Endpoint endpoint = value(Endpoint::connect(worker, peer.address(), within(20s), options()));
  Transfer send = value(endpoint.send(source.all()));
  const Deadline later = Deadline::after(100ms);
  while (!later.passed()) worker.progress();
  EXPECT_FALSE(send.done());
  peer.kill();
  const auto begun = Clock::now();
  EXPECT_FALSE(send.wait(10s));
  EXPECT_LT(Clock::now() - begun, 2s);
  const auto over = send.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
}

INSTANTIATE_TEST_SUITE_P(Rendezvous, Unmatched, ::testing::Bool(), [](const auto& readable) {
  return std::string(readable.param ? "read" : "written");
});

}  // namespace
}  // namespace hbmwire::test
