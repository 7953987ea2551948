// SPDX-License-Identifier: MIT
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "hbmwire/fd.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"

#include "ends.hpp"
#include "heard.hpp"
#include "internals.hpp"

// The ways in which an endpoint ends: by close(), by cancelling, by a failure, by the destruction
// of its owner.
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Both ends with memory; `a` knows that of `b`.
class Life : public ::testing::Test {
 protected:
  explicit Life(const EndpointOptions& options = {.peer_timeout = 500ms})
      : ends_(std::make_unique<Ends>(options)),
        memory_(ends_->context, MemoryType::host, 65536),
        key_(value(MemoryKey::pack(memory_.region(), {.revocable = true}))),
        remote_(value(ends_->a->remote(value(RemoteKey::unpack(key_.bytes()))))) {}

  [[nodiscard]] Result<Transfer> put(std::uint64_t bytes = 64) const {
    return ends_->a->put(memory_.slice(0, bytes), remote_.slice(0, bytes));
  }

  std::unique_ptr<Ends> ends_;
  Memory memory_;
  MemoryKey key_;
  RemoteRegion remote_;
};

TEST_F(Life, CloseWaitsForTransfersAndClosesBothSides) {
  std::vector<Transfer> puts;
  for (int i = 0; i < 500; ++i) puts.push_back(value(put()));  // more than the send queue holds
  beside(ends_->b_worker, [&] { good(ends_->a->close(within(10s))); });
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::closed);
  EXPECT_FALSE(ends_->a->error());
  for (Transfer& transfer : puts) EXPECT_TRUE(value(transfer.poll()));
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::closed);
  EXPECT_FALSE(ends_->b->error());
  const auto late = put();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::cancelled);
  good(ends_->a->close(within(1s)));
  good(ends_->b->close(within(1s)));
}

TEST_F(Life, BothMayCloseAtOnce) {
  std::thread other([&] { good(ends_->b->close(within(10s))); });
  good(ends_->a->close(within(10s)));
  other.join();
}

TEST_F(Life, CloseEndsByItsDeadlineWhenThePeerDoesNotLook) {
  const auto begun = Clock::now();
  const auto closed = ends_->a->close(within(200ms));
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Errc::timed_out) << describe(closed.error());
  EXPECT_LT(Clock::now() - begun, 1s);
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::closed);
}

/// A deadline counts only after completions that have already arrived were handled.
TEST_F(Life, ACloseWithoutTimeHandlesArrivedCompletions) {
  Transfer transfer = value(put());
  std::this_thread::sleep_for(200ms);
  const auto closed = ends_->a->close(within(0ms));
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Errc::timed_out) << describe(closed.error());
  EXPECT_TRUE(value(transfer.poll()));
  EXPECT_FALSE(ends_->a->error());
  ends_->drive([&] { return ends_->b->phase() == EndpointPhase::closed; });
  EXPECT_FALSE(ends_->b->error());
}

TEST_F(Life, ACloseWithoutTimeTakesAGoodbyeThatIsThere) {
  ends_->b.reset();
  const Deadline said = Deadline::after(200ms);
  while (!said.passed()) ends_->b_worker.progress();
  good(ends_->a->close(within(0ms)));
}

TEST_F(Life, ADroppedEndpointIsClosedAtTheOtherSide) {
  ends_->a.reset();
  ends_->drive([&] { return ends_->b->phase() == EndpointPhase::closed; });
  EXPECT_FALSE(ends_->b->error());
  ends_->drive([&] { return internals::count_endpoints(ends_->a_worker) == 0; });
}

TEST_F(Life, WaitClosedReturnsWhenThePeerHasClosed) {
  const auto early = ends_->b->wait_closed(20ms);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Errc::timed_out);
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::ready) << "nothing ends at the deadline";
  ends_->a.reset();
  good(ends_->b->wait_closed(10s));
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::closed);
}

TEST_F(Life, WaitingForThePeerTellsWhyTheEndpointFailed) {
  Transfer transfer = value(put());
  ends_->a.reset();
  std::thread other([&] { EXPECT_FALSE(transfer.wait(10s)); });
  const auto closed = ends_->b->wait_closed(10s);
  other.join();
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().hint, Hint::peer_broke_off);
}

TEST_F(Life, ADroppedEndpointWithTransfersInFlightBreaksOff) {
  Transfer transfer = value(put());
  ends_->a.reset();
  ends_->drive([&] { return transfer.done(); });
  const auto over = transfer.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::cancelled);
  EXPECT_TRUE(transfer.settled());
  ends_->drive([&] { return ends_->b->phase() == EndpointPhase::failed; });
  EXPECT_EQ(ends_->b->error()->hint, Hint::peer_broke_off);
}

TEST_F(Life, TransfersEndWithTheWorker) {
  std::vector<Transfer> puts;
  for (int i = 0; i < 500; ++i) puts.push_back(value(put()));
  ends_.reset();
  for (Transfer& transfer : puts) {
    ASSERT_TRUE(transfer.done());
    const auto over = transfer.wait(1s);
    EXPECT_TRUE(over || over.error().code == Errc::cancelled) << describe(over.error());
  }
}

TEST_F(Life, ACancelledTransferEndsTheOthersAndIsSettled) {
  Transfer first = value(put());
  Transfer second = value(put());
  std::vector<Transfer> waiting;
  for (int i = 0; i < 200; ++i) waiting.push_back(value(put()));
  // Number 1 (`second`) is cancelled at once, because the puts take only the latency of the
  // emulated network.
  internals::cancel(ends_->a_worker, 1, make_error(Errc::cancelled, Stage::complete, "a test"));
  beside(ends_->b_worker, [&] { good(second.cancel()); });
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::failed);
  EXPECT_EQ(ends_->a->error()->code, Errc::cancelled);
  const auto over = waiting.back().poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::cancelled);
  EXPECT_EQ(over.error().hint, Hint::other_transfer);
  EXPECT_TRUE(waiting.back().settled());
  ends_->drive([&] { return ends_->b->phase() == EndpointPhase::failed; });
}

TEST_F(Life, BothMayBreakOffAtOnce) {
  const RemoteRegion back = value(ends_->b->remote(value(RemoteKey::unpack(key_.bytes()))));
  Transfer one = value(put());
  Transfer other = value(ends_->b->put(memory_.slice(0, 64), back.slice(0, 64)));
  std::thread thread([&] { good(other.cancel()); });
  good(one.cancel());
  thread.join();
  EXPECT_TRUE(one.settled());
  EXPECT_TRUE(other.settled());
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::failed);
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::failed);
}

TEST_F(Life, APeerThatDoesNotLookLeavesACancelledTransferUnsettled) {
  Transfer transfer = value(put());
  const auto begun = Clock::now();
  const auto cancelled = transfer.cancel();
  EXPECT_LT(Clock::now() - begun, 1s);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().hint, Hint::peer_unsettled);
  EXPECT_FALSE(transfer.settled());
  const auto why = transfer.poll();
  ASSERT_FALSE(why);
  EXPECT_EQ(why.error().code, Errc::cancelled);
  EXPECT_EQ(why.error().hint, Hint::peer_unsettled);
  ends_->drive([&] { return ends_->b->phase() == EndpointPhase::failed; });
}

TEST_F(Life, ATransferThatRanOutOfTimeCancelsTheOthers) {
  Transfer first = value(put());
  Transfer second = value(put());
  // Number 0 (`first`) ends as by Transfer::wait() at its deadline.
  internals::cancel(ends_->a_worker, 0,
                    make_error(Errc::timed_out, Stage::complete, "a test's deadline"));
  ends_->drive([&] { return first.done() && second.done(); });
  const auto own = first.poll();
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().code, Errc::timed_out) << describe(own.error());
  const auto over = second.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::cancelled) << describe(over.error());
}

TEST_F(Life, APeerThatDoesNotLookLeavesALateTransferUnsettled) {
  Transfer transfer = value(put());
  const auto late = transfer.wait(1ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out) << describe(late.error());
  EXPECT_EQ(late.error().hint, Hint::peer_unsettled);
  EXPECT_FALSE(transfer.settled());
}

TEST_F(Life, ADescriptorEndsAWaitAndTheEndpointWithIt) {
  Transfer transfer = value(put());
  const Fd cancel{::eventfd(1, EFD_CLOEXEC)};
  beside(ends_->b_worker, [&] {
    const auto over = transfer.wait(Wait{Deadline::after(20s), cancel.get()});
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::cancelled) << describe(over.error());
  });
  EXPECT_TRUE(transfer.settled());
  ASSERT_TRUE(ends_->a->error());
  EXPECT_EQ(ends_->a->error()->code, Errc::cancelled);
}

TEST_F(Life, ADescriptorEndsACloseWithTransfersInFlight) {
  Transfer transfer = value(put());
  const Fd cancel{::eventfd(1, EFD_CLOEXEC)};
  beside(ends_->b_worker, [&] {
    const auto closed = ends_->a->close(Wait{Deadline::after(20s), cancel.get()});
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code, Errc::cancelled) << describe(closed.error());
  });
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::closed);
  const auto over = transfer.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::cancelled) << describe(over.error());
}

TEST_F(Life, AFailedEndpointIsClosedByCloseAndItsErrorStays) {
  Transfer transfer = value(put());
  beside(ends_->b_worker, [&] { good(transfer.cancel()); });
  ASSERT_EQ(ends_->a->phase(), EndpointPhase::failed);
  beside(ends_->b_worker, [&] { good(ends_->a->close(within(10s))); });
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::closed);
  ASSERT_TRUE(ends_->a->error());
  EXPECT_EQ(ends_->a->error()->code, Errc::cancelled) << describe(*ends_->a->error());
}

struct PatientLife : Life {
  PatientLife() : Life({.peer_timeout = 4s}) {}
};

TEST_F(PatientLife, ACancelWaitsForAnAnswerUntilPeerTimeout) {
  Transfer transfer = value(put());
  std::atomic<bool> over{false};
  std::thread late([&] {
    std::this_thread::sleep_for(1200ms);
    while (!over) ends_->b_worker.progress();
  });
  good(transfer.cancel());
  over = true;
  late.join();
  EXPECT_TRUE(transfer.settled());
}

TEST_F(Life, AnEndpointThatThePeerHasClosedStartsNothing) {
  // After these puts the next one would be posted at once, if the endpoint were not closed.
  for (int i = 0; i < 3; ++i) good(value(put()).wait(10s));
  ends_->b.reset();
  ends_->drive([&] { return ends_->a->phase() == EndpointPhase::closed; });
  const auto late = put();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::peer_failed) << describe(late.error());
  EXPECT_EQ(late.error().hint, Hint::peer_gone);
}

TEST_F(Life, ThePeersTransfersEndBeforeItsGoodbye) {
  const RemoteRegion back = value(ends_->b->remote(value(RemoteKey::unpack(key_.bytes()))));
  std::vector<Transfer> puts;  // more than the send queue holds
  for (int i = 0; i < 500; ++i)
    puts.push_back(value(ends_->b->put(memory_.slice(0, 64), back.slice(64, 64))));
  beside(ends_->b_worker, [&] { good(ends_->a->close(within(10s))); });
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::closed);
  for (Transfer& transfer : puts) {
    ASSERT_TRUE(transfer.done());
    EXPECT_TRUE(value(transfer.poll()));
  }
}

TEST_F(Life, AnEndpointThatIsEndingOrWasInvitedDoesNotReconnect) {
  Transfer transfer = value(put());
  internals::cancel(ends_->a_worker, 0, make_error(Errc::cancelled, Stage::complete, "a test"));
  ASSERT_EQ(ends_->a->phase(), EndpointPhase::ending);
  auto refused = ends_->a->reconnect(within(1s));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  ends_->drive([&] { return transfer.done(); });
  auto [here, there] = invite(ends_->a_worker, ends_->b_worker);
  beside(ends_->b_worker, [end = &here] { good(end->close(within(10s))); });
  refused = here.reconnect(within(1s));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::not_supported);
}

TEST_F(Life, OnlyTheSideThatConnectedReconnectsAndOnlyWhenItHasEnded) {
  auto refused = ends_->a->reconnect(within(1s));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  refused = ends_->b->reconnect(within(1s));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::not_supported);
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::ready);
}

TEST_F(Life, ReconnectLeadsBackToReadyAndForgetsOldRegions) {
  beside(ends_->b_worker, [&] { good(ends_->a->close(within(10s))); });
  std::optional<Endpoint> second;
  std::thread accepting([&] { second.emplace(value(ends_->listener.accept(within(10s)))); });
  good(ends_->a->reconnect(within(10s)));
  accepting.join();
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::ready);
  const auto stale = put();
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().hint, Hint::remote_region_stale);
  remote_ = value(ends_->a->remote(value(RemoteKey::unpack(key_.bytes()))));
  good(value(put()).wait(10s));
}

TEST_F(Life, AnEndpointDoesNotReconnectWhileItEnds) {
  Transfer transfer = value(put());
  internals::cancel(ends_->a_worker, 0, make_error(Errc::cancelled, Stage::complete, "a test"));
  ASSERT_EQ(ends_->a->phase(), EndpointPhase::ending) << "the peer does not look";
  const auto refused = ends_->a->reconnect(within(100ms));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy) << describe(refused.error());
  ends_->drive([&] { return ends_->a->phase() == EndpointPhase::failed; });
}

TEST_F(Life, AFailedReconnectLeavesAllAsItWas) {
  beside(ends_->b_worker, [&] { good(ends_->a->close(within(10s))); });
  // Nothing calls accept() or makes progress at the listener.
  EXPECT_FALSE(ends_->a->reconnect(within(100ms)));
  EXPECT_EQ(ends_->a->phase(), EndpointPhase::closed);
}

TEST_F(Life, AWithdrawnNameIsGoneAndItsKeyOpensNothing) {
  good(ends_->listener.advertise("target", memory_.region(), {.revocable = true}));
  const auto ask = [&] {
    Result<RemoteRegion> found = tl::make_unexpected(Error{});
    beside(ends_->b_worker, [&] { found = ends_->a->remote("target", within(10s)); });
    return found;
  };
  remote_ = value(ask());
  good(value(put()).wait(10s));
  good(ends_->listener.withdraw("target"));
  const auto gone = ask();
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::not_found) << describe(gone.error());
  const auto again = ends_->listener.withdraw("target");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::not_found) << describe(again.error());
  Transfer late = value(put());
  // The other end makes no progress: it would break off, too, and its message might come first.
  const auto over = late.wait(10s);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::permission_denied) << describe(over.error());
}

TEST(AnEndpoint, MayOutliveItsWorkersHandle) {
  const Context context = value(Context::create());
  std::optional<Worker> worker(value(Worker::create(context)));
  std::optional<std::pair<Endpoint, Endpoint>> ends(
      invite(*worker, value(Worker::create(context))));
  Memory memory(context, MemoryType::host, 64);
  const MemoryKey key = value(MemoryKey::pack(memory.region()));
  const RemoteRegion there = value(ends->first.remote(value(RemoteKey::unpack(key.bytes()))));
  Transfer before = value(ends->first.put(memory.slice(0, 8), there.slice(8, 8)));
  worker.reset();
  Transfer put = value(ends->first.put(memory.slice(0, 8), there.slice(16, 8)));
  good(before.wait(10s));
  good(put.wait(10s));
  ends.reset();
  EXPECT_TRUE(put.done());
}

/// A completion queue that is too small, so that it overruns as by a bug of the provider. From then
/// on it reports nothing.
TEST_F(Life, AnOverrunOfTheCompletionQueueEndsTheEndpointInBounds) {
  internals::shorten_next_queue(ends_->a_worker, 8);
  std::optional<Endpoint> second;
  std::thread accepting([&] { second.emplace(value(ends_->listener.accept(within(10s)))); });
  const std::string peer = ends_->a->peer();
  Endpoint endpoint =
      value(Endpoint::connect(ends_->a_worker, peer, within(10s), {.peer_timeout = 300ms}));
  accepting.join();
  const RemoteRegion remote = value(endpoint.remote(value(RemoteKey::unpack(key_.bytes()))));
  std::vector<Transfer> puts;
  for (int i = 0; i < 120; ++i)
    puts.push_back(value(endpoint.put(memory_.slice(0, 64), remote.slice(0, 64))));
  std::this_thread::sleep_for(100ms);  // without polls, so the queue fills up
  const auto begun = Clock::now();
  for (Transfer& transfer : puts) {
    const auto over = transfer.wait(20s);
    EXPECT_TRUE(over || over.error().code != Errc::timed_out) << describe(over.error());
  }
  EXPECT_FALSE(puts.back().wait(20s));
  EXPECT_LT(Clock::now() - begun, 5s);
  EXPECT_EQ(endpoint.phase(), EndpointPhase::failed);
  ASSERT_TRUE(endpoint.error());
  EXPECT_EQ(endpoint.error()->code, Errc::system) << describe(*endpoint.error());
  EXPECT_EQ(endpoint.error()->hint, Hint::completions_lost);
  // The other endpoint has its own queue.
  good(value(put()).wait(10s));
}

TEST(NoNic, TheSettingNoneHidesEveryNic) {
  const Ends ends({}, {}, {.memory = {}, .nics = {"none"}});
  EXPECT_FALSE(value(ends.context.nics()).empty()) << "the machine has a NIC";
  EXPECT_EQ(ends.a->nic().info().name, "tcp");
  EXPECT_EQ(ends.b->nic().info().name, "tcp");
  // Beside another name, "none" is taken for the name of a NIC, which does not exist.
  const auto mistaken =
      Worker::create(value(Context::create({.memory = {}, .nics = {"none", "emu0"}})));
  ASSERT_FALSE(mistaken);
  EXPECT_NE(describe(mistaken.error()).find("no RDMA device of this name"), std::string::npos)
      << describe(mistaken.error());
}

/// Either the listener's policy excludes TCP, or that of the connecting end. The errors of both
/// ends name the policy.
TEST(NoNic, AnEndWithoutANicIsRefusedByAPolicyThatExcludesTcp) {
  Heard heard;
  const Context with = value(Context::create({.memory = {}, .nics = {"emu0"}}));
  const Context without = value(Context::create({.memory = {}, .nics = {"none"}}));
  const Worker nic = value(Worker::create(with));
  const Worker tcp = value(Worker::create(without));
  const EndpointOptions free;
  std::size_t told = 0;
  for (const PathPolicy& policy : {PathPolicy{.require = Path::zero_copy},
                                   PathPolicy{.allow = {Path::host, Path::zero_copy}}}) {
    const EndpointOptions strict{.paths = policy};

    struct Row {
      const Worker& listens;
      const EndpointOptions& listeners;
      const Worker& dials;
      const EndpointOptions& dialers;
    };

    for (const Row& row : {Row{nic, strict, tcp, free}, Row{tcp, strict, nic, free},
                           Row{nic, free, tcp, strict}, Row{tcp, free, nic, strict}}) {
      Worker serving = row.listens;
      std::optional<Result<Endpoint>> refused;
      Result<Listener> listener =
          Listener::create(serving, {.address = "127.0.0.1", .port = 0, .endpoint = row.listeners});
      if (!listener) {
        EXPECT_EQ(listener.error().hint, Hint::path_policy) << describe(listener.error());
        continue;
      }
      beside(serving, [&] {
        refused = Endpoint::connect(row.dials, "127.0.0.1:" + std::to_string(listener->port()),
                                    within(10s), row.dialers);
      });
      ASSERT_FALSE(*refused);
      EXPECT_EQ(refused->error().hint, Hint::path_policy) << describe(refused->error());
      // An end without a NIC does not dial if its own policy excludes TCP.
      const bool dials = &row.dials == &nic || &row.dialers == &free;
      told += dials ? 1 : 0;
      const Deadline deadline = Deadline::after(10s);
      while (heard.count("path policy excludes tcp") < told && !deadline.passed())
        EXPECT_FALSE(listener->try_accept());
      EXPECT_EQ(heard.count("path policy excludes tcp"), told) << "the listener's log";
    }
  }
}

}  // namespace
}  // namespace hbmwire::test
