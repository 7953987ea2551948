// SPDX-License-Identifier: MIT
#include "contract.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/endpoint/internals.hpp"

/// The contract of docs/endpoint.md that every way of moving bytes keeps: sizes, order, fence,
/// levels, refusals, cancelling, failure in the middle, and destruction in any order. Expected
/// contents are made by overlay(expected, offset, from, seed, length).
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;
using Ask = Peer::Ask;

/// Whether the error is that of the transfer itself, of another transfer that broke the connection,
/// or of the peer, if a NIC reported that first.
bool is_end_of_key(Errc code) {
  return code == Errc::permission_denied || code == Errc::cancelled || code == Errc::peer_failed;
}

INSTANTIATE_TEST_SUITE_P(Ways, Contract, ::testing::ValuesIn(ways().begin(), ways().end()),
                         name_of);

// --- bytes, order, levels

TEST_P(Contract, BytesOfEverySizeArriveAtTheirPlaceAndNowhereElse) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095},
                                    std::uint64_t{65537}, kBytes - 9}) {
    fill(1);
    fill_peer(2);
    Transfer to = put(5, 3, bytes);
    finish(to);
    EXPECT_EQ(to.bytes(), bytes);
    if (bytes > 65537) {
      EXPECT_EQ(to.path(), way().path);
    }
    Transfer flush = put(0, 0, 1, {.level = CompletionLevel::visible});
    finish(flush);
    auto expected = pattern(kBytes, 2);
    overlay(expected, 3, 5, 1, bytes);
    overlay(expected, 0, 0, 1, 1);
    EXPECT_TRUE(same_bytes(peers_contents(), expected)) << "put of " << bytes;
    Transfer from = get(7, 2, bytes);
    finish(from);
    EXPECT_EQ(from.bytes(), bytes);
    auto got = pattern(kBytes, 1);
    std::copy_n(expected.begin() + 2, bytes, got.begin() + 7);
    EXPECT_TRUE(same_bytes(contents(), got)) << "get of " << bytes;
  }
}

TEST_P(Contract, PutsArriveInTheOrderInWhichTheyWereStarted) {
  fill(1);
  fill_peer(2);
  auto expected = pattern(kBytes, 2);
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t bytes = i % 3 == 0 ? 8 : i % 3 == 1 ? 70000 : (1U << 20U) + 1;
    const std::uint64_t from = i * 1000;
    const std::uint64_t to = i % 7 * 500;
    all.push_back(put(from, to, bytes));
    overlay(expected, to, from, 1, bytes);
  }
  all.push_back(put(0, 0, 1, {.level = CompletionLevel::visible}));
  overlay(expected, 0, 0, 1, 1);
  for (Transfer& transfer : all) finish(transfer);
  EXPECT_TRUE(same_bytes(peers_contents(), expected));
}

TEST_P(Contract, AGetSeesThePutsBeforeIt) {
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{9000}, kHalf}) {
    fill(3);
    fill_peer(4);
    Transfer to = put(0, 0, bytes);
    Transfer back = get(kHalf, 0, bytes);
    finish(back);
    finish(to);
    auto expected = pattern(kBytes, 3);
    overlay(expected, kHalf, 0, 3, bytes);
    EXPECT_TRUE(same_bytes(contents(), expected)) << bytes;
  }
}

TEST_P(Contract, AFlushEndsWhenAllEarlierTransfersHaveArrived) {
  fill(1);
  fill_peer(2);
  std::vector<Transfer> puts;
  for (std::uint64_t i = 0; i < 20; ++i)
    puts.push_back(put(i * 100, i * 100, i % 5 == 4 ? 1U << 20U : 100));
  Transfer flush = value(endpoint_->flush());
  finish(flush);
  for (Transfer& transfer : puts) EXPECT_TRUE(transfer.done());
}

TEST_P(Contract, AFlushIsOverWhenTheListsBeforeItHaveArrived) {
  if (!way().lists) return;
  begin({.send_depth = 4});  // the list must wait for room
  fill(1);
  std::vector<TransferPart> parts;
  for (std::uint64_t i = 0; i < 100; ++i) parts.push_back({here(i * 64, 64), there(i * 64, 64)});
  // The peer's engine must see the bytes, because the test reads them with it.
  PreparedTransfer list = value(endpoint_->prepare_put(parts, {.level = CompletionLevel::visible}));
  Transfer listed = value(list.post());
  Transfer flush = value(endpoint_->flush());
  finish(flush);
  EXPECT_TRUE(listed.done());
  EXPECT_TRUE(begin_alike(peers_contents(), pattern(kBytes, 1), 100 * 64));
}

TEST_P(Contract, AVisiblePutIsSeenByThePeersEngine) {
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{9000}, kBytes}) {
    fill(5);
    fill_peer(6);
    Transfer transfer = put(0, 0, bytes, {.level = CompletionLevel::visible});
    finish(transfer);
    auto expected = pattern(kBytes, 6);
    overlay(expected, 0, 0, 5, bytes);
    EXPECT_TRUE(same_bytes(peers_contents(), expected)) << bytes;
  }
}

TEST_P(Contract, BytesOfAGetAreSeenByThisEndsEngine) {
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{9000}, kBytes}) {
    fill(7);
    fill_peer(8);
    Transfer transfer = get(0, 0, bytes);
    finish(transfer);
    auto expected = pattern(kBytes, 7);
    overlay(expected, 0, 0, 8, bytes);
    EXPECT_TRUE(same_bytes(contents(), expected)) << bytes;
  }
}

TEST_P(Contract, AnImmediateComesBehindItsBytes) {
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{9000}, kBytes}) {
    fill(9);
    fill_peer(10);
    peer_->tell(Ask::receive_immediate);
    Transfer transfer = put(0, 0, bytes, {.immediate = 77});
    const Peer::Answer received = peer_->hear(drive());
    ASSERT_FALSE(received.failed);
    EXPECT_EQ(received.value, 77U);
    auto expected = pattern(kBytes, 10);
    overlay(expected, 0, 0, 9, bytes);
    EXPECT_TRUE(same_bytes(received.bytes, expected)) << bytes;
    finish(transfer);
  }
}

TEST_P(Contract, AMessageComesBehindThePutsBeforeIt) {
  if (!way().messages) return;
  for (const std::uint64_t bytes : {std::uint64_t{8}, kHalf}) {
    fill(11);
    fill_peer(12);
    peer_->tell(Ask::receive, 64);
    Transfer data = put(64, 64, bytes, {.level = CompletionLevel::visible});
    Transfer message = value(endpoint_->send(here(0, 64)));
    const Peer::Answer received = peer_->hear(drive());
    ASSERT_FALSE(received.failed);
    auto expected = pattern(kBytes, 12);
    overlay(expected, 0, 0, 11, 64 + bytes);
    EXPECT_TRUE(same_bytes(received.bytes, expected)) << bytes;
    finish(data);
    finish(message);
  }
}

TEST_P(Contract, AGetWhoseHandleIsDroppedBringsItsBytes) {
  for (const std::uint64_t bytes : {std::uint64_t{8}, kBytes}) {
    fill(1);
    fill_peer(2);
    const std::size_t free = internals::look_at(*worker_).free_transfers;
    get(0, 0, bytes).reset();
    const Deadline deadline = Deadline::after(10s);
    while (internals::look_at(*worker_).free_transfers != free && !deadline.passed())
      worker_->progress();
    EXPECT_TRUE(begin_alike(contents(), pattern(kBytes, 2), bytes)) << bytes;
  }
}

// --- limits and refusals

TEST_P(Contract, MoreThanTheSendQueueTakesWaits) {
  begin({.send_depth = 4});
  fill(1);
  fill_peer(2);
  auto expected = pattern(kBytes, 2);
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t bytes = i % 50 == 49 ? 70000 : 64;
    all.push_back(put(i * 64, i * 64, bytes));
    overlay(expected, i * 64, i * 64, 1, bytes);
  }
  all.push_back(put(0, 0, 1, {.level = CompletionLevel::visible}));
  for (Transfer& transfer : all) finish(transfer);
  EXPECT_TRUE(same_bytes(peers_contents(), expected));
}

TEST_P(Contract, WithoutAFreeTransferNothingIsStartedAndNothingLost) {
  begin({}, {.max_transfers = 3});
  fill(1);
  for (const std::uint64_t bytes : {std::uint64_t{64}, kHalf}) {
    for (int round = 0; round < 5; ++round) {
      std::vector<Transfer> all;
      for (int i = 0; i < 3; ++i) all.push_back(put(0, 0, bytes));
      const auto refused = endpoint_->put(here(0, bytes), there(0, bytes));
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Errc::exhausted) << describe(refused.error());
      for (Transfer& transfer : all) finish(transfer);
    }
  }
}

TEST_P(Contract, AHandleThatIsDroppedGivesItsTransferBackWhenItIsOver) {
  begin({}, {.max_transfers = 3});
  fill(1);
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t bytes = i % 20 == 19 ? kHalf : 64;
    const Deadline deadline = Deadline::after(10s);
    Result<Transfer> started = endpoint_->put(here(0, bytes), there(0, bytes));
    while (!started && started.error().code == Errc::exhausted && !deadline.passed()) {
      worker_->progress();
      started = endpoint_->put(here(0, bytes), there(0, bytes));
    }
    ASSERT_TRUE(started) << i << ": " << describe(started.error());
  }
  Transfer flush = [&] {
    for (;;) {
      if (auto started = endpoint_->flush()) return std::move(*started);
      worker_->progress();
    }
  }();
  finish(flush);
}

TEST_P(Contract, ARefusedOperationChangesNothing) {
  fill(1);
  fill_peer(2);
  const auto expect_refused = [&](const Result<Transfer>& started, Errc code) {
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, code) << describe(started.error());
    EXPECT_EQ(endpoint_->phase(), EndpointPhase::ready);
  };
  for (const std::uint64_t bytes : {std::uint64_t{64}, kHalf}) {
    expect_refused(endpoint_->put(here(kBytes - bytes + 1, bytes), there(0, bytes)),
                   Errc::invalid_argument);
    expect_refused(endpoint_->put(here(0, bytes), there(kBytes - bytes + 1, bytes)),
                   Errc::invalid_argument);
    expect_refused(endpoint_->get(here(0, bytes), there(1, bytes - 1)), Errc::invalid_argument);
    expect_refused(endpoint_->put({}, there(0, bytes)), Errc::invalid_argument);
    expect_refused(endpoint_->put(here(0, bytes), {}), Errc::invalid_argument);
  }
  const Region closed = value(context_->register_memory(*memory_, Access::remote_read));
  expect_refused(endpoint_->get(closed.slice(0, 64), there(0, 64)), Errc::permission_denied);
  EXPECT_TRUE(same_bytes(contents(), pattern(kBytes, 1)));
  EXPECT_TRUE(same_bytes(peers_contents(), pattern(kBytes, 2)));
}

TEST_P(Contract, ListsGoAsOneTransferOrAreRefused) {
  fill(1);
  fill_peer(2);
  auto expected = pattern(kBytes, 2);
  std::vector<TransferPart> parts;
  for (std::uint64_t i = 0; i < 100; ++i) {
    parts.push_back({here(i * 300, 200), there((99 - i) * 300, 200)});
    overlay(expected, (99 - i) * 300, i * 300, 1, 200);
  }
  auto list = endpoint_->prepare_put(parts, {.level = CompletionLevel::visible});
  ASSERT_EQ(list.has_value(), way().lists) << (list ? "" : describe(list.error()));
  if (!list) {
    EXPECT_EQ(list.error().code, Errc::not_supported);
    return;
  }
  for (int run = 0; run < 2; ++run) {
    Transfer transfer = value(list->post());
    finish(transfer);
    EXPECT_EQ(transfer.bytes(), 100U * 200U);
  }
  EXPECT_TRUE(same_bytes(peers_contents(), expected));
}

TEST_P(Contract, AtomicsChangeThePeersMemoryOrAreRefused) {
  fill_peer(2);
  std::uint64_t before = 0;
  std::memcpy(&before, pattern(kBytes, 2).data(), sizeof before);
  auto added = endpoint_->fetch_add(there(0, 8), 5);
  ASSERT_EQ(added.has_value(), way().atomics) << (added ? "" : describe(added.error()));
  if (!added) {
    EXPECT_EQ(added.error().code, Errc::not_supported);
    return;
  }
  finish(*added);
  EXPECT_EQ(added->value(), before);
  Transfer swapped = value(endpoint_->compare_swap(there(0, 8), before + 5, 1234));
  finish(swapped);
  EXPECT_EQ(swapped.value(), before + 5);
  Transfer missed = value(endpoint_->compare_swap(there(0, 8), before, 99));
  finish(missed);
  EXPECT_EQ(missed.value(), 1234U);
}

// --- the end of transfers in flight

TEST_P(Contract, AfterACancelNothingMoves) {
  fill(1);
  fill_peer(2);
  std::vector<Transfer> all;
  for (int i = 0; i < 4; ++i) all.push_back(put(0, 0, kBytes));
  const auto begun = Clock::now();
  const auto cancelled = all[1].cancel();
  EXPECT_TRUE(cancelled) << describe(cancelled.error());
  EXPECT_LT(Clock::now() - begun, 5s);
  for (Transfer& transfer : all) {
    const auto error = how_it_ends(transfer);
    if (error) {
      EXPECT_EQ(error->code, Errc::cancelled) << describe(*error);
      EXPECT_TRUE(transfer.settled());
    }
  }
  fill(3);
  const auto reported = peers_contents();
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(same_bytes(peers_contents(), reported)) << "bytes moved after the report";
  const auto phase = endpoint_->phase();
  EXPECT_TRUE(phase == EndpointPhase::failed || phase == EndpointPhase::ready);
  expect_works_again();
}

TEST_P(Contract, ACancelledGetLeavesThisEndsMemoryAlone) {
  fill_peer(2);
  for (const auto under_way : {0ms, 2ms, 5ms, 10ms}) {
    SCOPED_TRACE(under_way.count());
    if (under_way != 0ms) connect();
    fill(1);
    Transfer transfer = get(0, 0, kBytes);
    const auto go_on_for = [&](std::chrono::milliseconds time) {
      for (const auto end = Clock::now() + time; Clock::now() < end;) worker_->progress();
    };
    go_on_for(under_way);
    static_cast<void>(transfer.cancel());  // it may already have ended
    EXPECT_TRUE(transfer.done());
    fill(3);
    go_on_for(50ms);
    EXPECT_TRUE(same_bytes(contents(), pattern(kBytes, 3))) << "bytes moved after the report";
    // Bytes from NICs may become visible in the device only after the next flush.
    auto flushed = value(worker_->flush(here(0, kBytes)));
    finish(flushed);
    EXPECT_TRUE(same_bytes(contents(), pattern(kBytes, 3))) << "the flush brought old bytes";
  }
  expect_works_again();
}

TEST_P(Contract, AWaitThatRunsOutCancels) {
  fill(1);
  Transfer transfer = put(0, 0, kBytes);
  const auto begun = Clock::now();
  const auto waited = transfer.wait(within(0ns));
  EXPECT_LT(Clock::now() - begun, 5s);
  if (!waited) {
    EXPECT_EQ(waited.error().code, Errc::timed_out) << describe(waited.error());
  }
  EXPECT_TRUE(transfer.done());
  expect_works_again();
}

TEST_P(Contract, ARevokedKeyEndsTransfersInTime) {
  fill(1);
  fill_peer(2);
  std::vector<Transfer> all;
  for (int i = 0; i < 6; ++i) all.push_back(put(0, 0, kBytes));
  peer_->ask(Ask::revoke, 0, drive());
  // Each may succeed or fail. No transfer may change a byte from here on.
  for (Transfer& transfer : all) {
    if (const auto error = how_it_ends(transfer)) {
      EXPECT_TRUE(is_end_of_key(error->code)) << describe(*error);
    }
  }
  const auto before = peers_contents();
  fill(3);
  if (auto late = endpoint_->put(here(0, kBytes), there(0, kBytes))) {
    const auto error = how_it_ends(*late);
    ASSERT_TRUE(error);
    EXPECT_TRUE(is_end_of_key(error->code)) << describe(*error);
  }
  EXPECT_TRUE(same_bytes(peers_contents(), before)) << "a key that was taken back opened memory";
}

TEST_P(Contract, APeerThatLeavesEndsTransfersInTime) {
  fill(1);
  std::vector<Transfer> all;
  for (int i = 0; i < 6; ++i) all.push_back(put(0, 0, kBytes));
  peer_->ask(Ask::drop_endpoints, 0, drive());
  const auto begun = Clock::now();
  for (Transfer& transfer : all) {
    if (const auto error = how_it_ends(transfer)) {
      const bool expected = error->code == Errc::peer_failed || error->code == Errc::cancelled;
      EXPECT_TRUE(expected) << describe(*error);
    }
  }
  EXPECT_LT(Clock::now() - begun, 8s);
  expect_works_again();
}

TEST_P(Contract, HandleEndpointAndWorkerMayGoInAnyOrder) {
  std::vector<int> order{0, 1, 2};
  do {
    for (const std::uint64_t bytes : {std::uint64_t{64}, kHalf}) {
      begin();
      fill(1);
      std::optional<Transfer> transfer = put(0, 0, bytes);
      std::optional<Transfer> other = get(0, 0, bytes);
      for (const int each : order) {
        if (each == 0) transfer.reset();
        if (each == 1) endpoint_.reset();
        if (each == 2) worker_.reset();
      }
      // Endpoint and worker have gone before this handle.
      if (other->done()) static_cast<void>(other->explain());
      other.reset();
    }
  } while (std::next_permutation(order.begin(), order.end()));
  begin();
  expect_works_again();
}

// --- threads

TEST_P(Contract, EachQuestionMayBeAskedWhileTheLibrarysThreadMakesProgress) {
  begin({}, {.progress_thread = true});
  fill(1);
  for (int round = 0; round < 10; ++round) {
    Transfer transfer = round % 2 == 0 ? put(0, 0, kHalf) : get(0, 0, kHalf);
    const Deadline deadline = Deadline::after(10s);
    std::uint64_t looks = 0;
    while (!transfer.done() && !deadline.passed()) {
      looks += transfer.bytes() + transfer.value() + (transfer.settled() ? 1 : 0) +
               static_cast<std::uint64_t>(transfer.path());
    }
    EXPECT_TRUE(transfer.done()) << looks;
    finish(transfer);
    EXPECT_EQ(transfer.bytes(), kHalf);
    EXPECT_TRUE(transfer.settled());
  }
}

}  // namespace
}  // namespace hbmwire::test
