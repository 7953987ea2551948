// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <optional>
#include <thread>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "endpoint/endpoint_state.hpp"  // a unit test of LoopbackMover
#include "ends.hpp"
#include "tests/library/emulated_hooks.hpp"

/// Messages on their way into device memory while the NIC that carries them there fails. Each one
/// ends with its own result, and later ones arrive.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = 4096;

using Clock = std::chrono::steady_clock;
using Status = detail::TransferState::Status;

class Mover : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
    ends_.emplace(EndpointOptions{.peer_timeout = 300ms});
    source_.emplace(ends_->context, MemoryType::host, kBytes);
    target_.emplace(ends_->context, MemoryType::gaudi, kBytes);
    source_->fill(1);
    target_->fill(2);
  }

  void TearDown() override {
    refuse_requests(0, 0, 0);
    fail_nic_calls(nullptr, 0);
    source_.reset();
    target_.reset();
    ends_.reset();
    EXPECT_EQ(live_objects(), "");
    set_log_sink({});
  }

  [[nodiscard]] detail::LoopbackMover& mover() const {
    return *state_of(ends_->b_worker).nics.front().mover;
  }

  /// A receive into the device, without a message yet.
  Transfer receive(Endpoint& at) { return value(at.receive(target_->slice(0, 64))); }

  /// Makes the mover use a completion queue that is never polled.
  [[nodiscard]] std::unique_ptr<transport::VerbsCompletionQueue> connect_to_silent_queue() const {
    auto& nic = state_of(ends_->b_worker).nics.front();
    auto silent = value(transport::VerbsCompletionQueue::create(
        state_of(nic.nic).shared_from_this(), nic.channel.get(), 256));
    good(mover().connect(*silent));
    return silent;
  }

  /// Makes the keys of all receives in flight invalid.
  void spoil_receives() const {
    for (detail::TransferState& transfer : state_of(ends_->b_worker).transfers) {
      if (transfer.status == Status::active) transfer.operation.local_key = 0;
    }
  }

  void finish(Transfer& transfer) {
    ends_->drive([&] { return transfer.done(); });
    const auto over = transfer.poll();
    ASSERT_TRUE(over) << describe(over.error());
  }

  /// Expects that the transfer fails in time, and returns its error.
  Error expect_failure(Transfer& transfer, std::chrono::nanoseconds within) {
    const auto begun = Clock::now();
    ends_->drive([&] { return transfer.done(); }, within);
    EXPECT_LT(Clock::now() - begun, within);
    const auto over = transfer.poll();
    EXPECT_FALSE(over);
    return over ? Error{} : over.error();
  }

  /// Expects that a message arrives.
  void expect_works(Endpoint& from, Endpoint& to) {
    target_->fill(3);
    Transfer receive = value(to.receive(target_->slice(0, 64)));
    Transfer send = value(from.send(source_->slice(0, 64)));
    finish(receive);
    finish(send);
    const auto sent = pattern(kBytes, 1);
    const auto got = target_->contents();
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + 64, sent.begin()));
  }

  /// Makes another connection between the same workers.
  std::pair<Endpoint, Endpoint> connect() {
    std::optional<Endpoint> accepted;
    std::thread accepting([&] { accepted.emplace(value(ends_->listener.accept(within(10s)))); });
    Endpoint connected = value(
        Endpoint::connect(ends_->a_worker, "127.0.0.1:" + std::to_string(ends_->listener.port()),
                          within(10s), {.peer_timeout = 300ms}));
    accepting.join();
    return {std::move(connected), std::move(*accepted)};
  }

  std::optional<Ends> ends_;
  std::optional<Memory> source_;
  std::optional<Memory> target_;
};

TEST_F(Mover, AMessageWhoseFlushIsRefusedMovesNothingAfterItsReport) {
  Transfer received = receive(*ends_->b);
  Transfer send = value(ends_->a->send(source_->slice(0, 64), {.level = CompletionLevel::arrived}));
  // The READ that brings the message is posted, the flush after it is refused.
  refuse_requests(1, 1, ENOMEM);
  const Error error = expect_failure(received, 2s);
  EXPECT_EQ(error.number, ENOMEM) << describe(error);
  const auto reported = target_->contents();
  EXPECT_EQ(expect_failure(send, 2s).code, Errc::peer_failed);
  std::this_thread::sleep_for(30ms);
  EXPECT_TRUE(same_bytes(target_->contents(), reported)) << "bytes changed after the report";
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::ready);
  expect_works(*ends_->a, *ends_->b);
}

TEST_F(Mover, AQueueThatRefusesAllIsReplaced) {
  // Even the request that would report the end of the READ is refused. The queue pair is destroyed
  // in time.
  Transfer received = receive(*ends_->b);
  Transfer send = value(ends_->a->send(source_->slice(0, 64)));
  refuse_requests(1, 2, ENOMEM);
  const Error error = expect_failure(received, 4s);
  EXPECT_EQ(error.number, ENOMEM) << describe(error);
  expect_works(*ends_->a, *ends_->b);
}

TEST_F(Mover, AMessageThatFailsEndsNoOther) {
  auto [a, b] = connect();
  Transfer bad = receive(*ends_->b);
  spoil_receives();
  Transfer good_one = value(b.receive(target_->slice(1024, 64)));
  Transfer flush = value(ends_->b_worker.flush(target_->slice(2048, 64)));
  Transfer send = value(ends_->a->send(source_->slice(0, 64), {.level = CompletionLevel::arrived}));
  Transfer other = value(a.send(source_->slice(0, 64), {.level = CompletionLevel::arrived}));
  const Error error = expect_failure(bad, 2s);
  EXPECT_EQ(error.number_kind, NumberKind::wc_status) << describe(error);
  EXPECT_NE(error.number, IBV_WC_WR_FLUSH_ERR) << describe(error);
  EXPECT_EQ(expect_failure(send, 2s).code, Errc::peer_failed);
  finish(good_one);
  finish(other);
  finish(flush);
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::ready);
  EXPECT_EQ(b.phase(), EndpointPhase::ready);
  const auto got = target_->contents();
  EXPECT_TRUE(std::equal(got.begin() + 1024, got.begin() + 1024 + 64, pattern(kBytes, 1).begin()));
}

TEST_F(Mover, ALostQueueThatCannotBeReplacedEndsItsTransfers) {
  fail_nic_calls("ibv_create_qp", ENOMEM);
  Transfer bad = receive(*ends_->b);
  spoil_receives();
  Transfer send = value(ends_->a->send(source_->slice(0, 64)));
  ends_->drive([&] { return bad.done(); });
  EXPECT_FALSE(bad.poll());
  std::vector<Transfer> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(receive(*ends_->b));
  std::vector<Transfer> sends;
  for (int i = 0; i < 3; ++i) sends.push_back(value(ends_->a->send(source_->slice(0, 64))));
  waiting.push_back(value(ends_->b_worker.flush(target_->slice(0, 64))));
  const auto begun = Clock::now();
  ends_->drive([&] { return std::ranges::all_of(waiting, &Transfer::done); }, 3s);
  // The receives and the flush wait while the mover tries to replace its queue pair.
  EXPECT_GT(Clock::now() - begun, 800ms);
  for (Transfer& transfer : waiting) {
    const auto over = transfer.poll();
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().number, ENOMEM) << describe(over.error());
    EXPECT_TRUE(transfer.settled());
  }
  fail_nic_calls(nullptr, 0);
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::ready);
  expect_works(*ends_->a, *ends_->b);
}

TEST_F(Mover, AMoverLeavesALostCompletionQueue) {
  Transfer received = receive(*ends_->b);
  Transfer send = value(ends_->a->send(source_->slice(0, 64)));
  state_of(ends_->b_worker).lose(*mover().completions);
  EXPECT_EQ(expect_failure(received, 2s).hint, Hint::completions_lost)
      << "the endpoint uses this queue, too";
  auto [a, b] = connect();
  expect_works(a, b);
}

TEST_F(Mover, TransfersEndWithTheirCompletionQueue) {
  const auto silent = connect_to_silent_queue();
  Transfer flush = value(ends_->b_worker.flush(target_->slice(0, 64)));
  state_of(ends_->b_worker).lose(*silent);
  EXPECT_EQ(expect_failure(flush, 2s).hint, Hint::completions_lost);
  expect_works(*ends_->a, *ends_->b);
}

TEST_F(Mover, ACompletionQueueLostWhileIdleCostsNoMessage) {
  const auto silent = connect_to_silent_queue();
  state_of(ends_->b_worker).lose(*silent);
  expect_works(*ends_->a, *ends_->b);
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::ready);
}

TEST_F(Mover, ASilentNicIsNotAwaitedForever) {
  const auto silent = connect_to_silent_queue();
  Transfer received = receive(*ends_->b);
  Transfer send = value(ends_->a->send(source_->slice(0, 64)));
  EXPECT_EQ(expect_failure(received, 5s).hint, Hint::completions_lost);
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::ready);
  expect_works(*ends_->a, *ends_->b);
}

TEST_F(Mover, TransfersEndWithTheWorker) {
  mover().broken = true;
  mover().mend_at = Clock::time_point::max();
  Transfer received = receive(*ends_->b);
  Transfer send = value(ends_->a->send(source_->slice(0, 64)));
  Transfer flush = value(ends_->b_worker.flush(target_->slice(0, 64)));
  finish(send);
  ends_->drive([&] { return mover().first_waiting->next != nullptr; });
  ends_.reset();
  for (Transfer* const transfer : {&received, &flush}) {
    ASSERT_TRUE(transfer->done());
    EXPECT_EQ(transfer->poll().error().code, Errc::cancelled);
  }
}

TEST_F(Mover, ACancelledMessageIsReportedWhenTheMoverWorksAgain) {
  mover().broken = true;
  mover().mend_at = Clock::now() + 1600ms;  // longer than the endpoint waits
  Transfer received = receive(*ends_->b);
  Transfer send = value(ends_->a->send(source_->slice(0, 64)));
  finish(send);
  ends_->drive([&] { return mover().first_waiting != nullptr; });
  const auto begun = Clock::now();
  const auto late = received.wait(1ms);
  EXPECT_LT(Clock::now() - begun, 4s);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out) << describe(late.error());
  EXPECT_EQ(ends_->b->phase(), EndpointPhase::failed);
}

}  // namespace
}  // namespace hbmwire::test
