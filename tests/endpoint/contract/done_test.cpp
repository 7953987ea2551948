// SPDX-License-Identifier: MIT
#include <map>
#include <thread>
#include <vector>

#include "contract.hpp"

/// How a program learns that transfers have ended, over every way of moving bytes
/// (docs/endpoint.md, "How to learn that it is over").
namespace hbmwire::test {
namespace {

class Over : public Contract {
 protected:
  /// Calls next_done() until it has reported `count` transfers, which it reports once each.
  std::map<std::uint64_t, Done> collect_done(std::size_t count) {
    std::map<std::uint64_t, Done> told;
    const Deadline end = Deadline::after(20s);
    while (told.size() < count && !end.passed()) {
      if (auto done = worker_->next_done()) {
        EXPECT_FALSE(told.contains(done->cookie)) << "told of twice";
        told.emplace(done->cookie, std::move(*done));
      }
    }
    EXPECT_EQ(told.size(), count);
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(worker_->next_done());
    return told;
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, Over, ::testing::ValuesIn(ways().begin(), ways().end()), name_of);

TEST_P(Over, NextDoneTellsOfEachTransferOnce) {
  fill(1);
  fill_peer(2);
  const auto bytes_of = [](std::uint64_t i) -> std::uint64_t {
    return i % 3 == 0 ? 8 : i % 3 == 1 ? 70000 : (1U << 20U) + 1;
  };
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const std::uint64_t bytes = bytes_of(i);
    all.push_back(i % 5 == 4 ? get(kHalf, 0, bytes) : put(0, i, bytes));
    all.back().notify(100 + i);
    if (i % 2 == 0) all.back().reset();  // reported even without its handle
  }
  for (const auto& [cookie, done] : collect_done(30)) {
    EXPECT_TRUE(done.result) << describe(done.result.error());
    EXPECT_EQ(done.bytes, bytes_of(cookie - 100));
  }
}

TEST_P(Over, NextDoneTellsOfCancelledAndFailedTransfers) {
  fill(1);
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 6; ++i) {
    all.push_back(put(0, 0, kBytes));
    all.back().notify(i);
  }
  const auto asked = all[2].request_cancel();
  EXPECT_TRUE(asked) << describe(asked.error());
  const auto told = collect_done(6);
  for (const auto& [cookie, done] : told) {
    EXPECT_EQ(done.result.has_value(), all[cookie].poll().has_value());
    if (done.result) continue;
    EXPECT_EQ(done.result.error().code, Errc::cancelled) << describe(done.result.error());
    EXPECT_TRUE(done.settled);
  }
  // Transfers end in order: if number 2 succeeded before its cancel, those before it did, too.
  if (told.at(2).result) {
    EXPECT_TRUE(told.at(0).result && told.at(1).result);
  }
  expect_works_again();
}

TEST_P(Over, ARequestedCancelEndsWithNothingMovingAfterwards) {
  fill(1);
  fill_peer(2);
  std::vector<Transfer> all;
  for (int i = 0; i < 4; ++i) all.push_back(put(0, 0, kBytes));
  const auto asked = all[1].request_cancel();
  EXPECT_TRUE(asked) << describe(asked.error());
  for (Transfer& transfer : all) {
    if (const auto error = how_it_ends(transfer)) {
      EXPECT_EQ(error->code, Errc::cancelled) << describe(*error);
    }
  }
  fill(3);
  const auto reported = peers_contents();
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(same_bytes(peers_contents(), reported)) << "bytes moved after the report";
  expect_works_again();
}

TEST_P(Over, PollUntilLeavesATransferUnderWay) {
  fill(1);
  fill_peer(2);
  Transfer transfer = put(0, 0, kBytes, {.level = CompletionLevel::visible});
  const bool over = value(transfer.poll_until(within(0ns)));
  EXPECT_EQ(over, transfer.done());
  EXPECT_TRUE(value(transfer.poll_until(within(20s))));
  EXPECT_TRUE(begin_alike(peers_contents(), pattern(kBytes, 1), kBytes));
}

TEST_P(Over, WaitAnyAndWaitAllLeaveTheOthersUnderWay) {
  fill(1);
  fill_peer(2);
  std::vector<Transfer> all(1);  // an empty handle, which is ignored
  for (int i = 0; i < 5; ++i) all.push_back(put(0, 0, kBytes, {.level = CompletionLevel::visible}));
  if (const auto first = value(worker_->wait_any(all, within(0ns)))) {
    EXPECT_TRUE(all[*first].done());
  }
  // Number 1 ends first: transfers end in their order, and handle 0 is empty.
  EXPECT_EQ(value(worker_->wait_any(all, within(20s))), 1U);
  static_cast<void>(value(worker_->wait_all(all, within(0ns))));
  EXPECT_TRUE(value(worker_->wait_all(all, within(20s))));
  EXPECT_TRUE(begin_alike(peers_contents(), pattern(kBytes, 1), kBytes));
}

}  // namespace
}  // namespace hbmwire::test
