// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "hbmwire/deadline.hpp"

#include "lane_pairs.hpp"

// The promises of each lane, tested only through its interface.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;
using transport::Completion;
using transport::CompletionStatus;
using transport::Message;
using transport::Opcode;
using transport::Operation;
using transport::Receive;
using transport::Request;

std::uint64_t address_of(const std::byte& byte) { return reinterpret_cast<std::uint64_t>(&byte); }

class LaneContract : public testing::TestWithParam<LaneWay> {
 protected:
  /// A request for `length` bytes at offset `near_at` of near's memory and `far_at` of far's.
  [[nodiscard]] Operation operation(Opcode opcode, std::uint64_t near_at, std::uint64_t far_at,
                                    std::uint64_t length) const {
    Operation made;
    made.opcode = opcode;
    made.local = address_of(lanes_->near_bytes()[near_at]);
    made.local_key = lanes_->near_key();
    made.remote = address_of(lanes_->far_bytes()[far_at]);
    made.remote_key = lanes_->remote_key();
    made.length = length;
    return made;
  }

  void post(const Operation& what, std::uint64_t id) const {
    ASSERT_EQ(lanes_->near->post(what, id), 0);
  }

  /// A receive of far's lane for `length` bytes at offset `at` of far's memory.
  [[nodiscard]] Receive receive(std::uint64_t id, std::uint64_t at, std::uint32_t length) const {
    return {id, {address_of(lanes_->far_bytes()[at]), length, lanes_->far_key()}};
  }

  void post_receives(std::span<const Receive> receives) const {
    std::size_t posted = 0;
    ASSERT_EQ(lanes_->far->post_receives(receives, posted), 0);
    ASSERT_EQ(posted, receives.size());
  }

  /// Polls both queues, and expects `near` completions in all at near's queue and `far` at far's.
  void expect_completions(std::size_t near, std::size_t far = 0) {
    const Deadline deadline = Deadline::after(10s);
    while ((near_.size() < near || far_.size() < far) && !deadline.passed()) poll();
    ASSERT_EQ(near_.size(), near);
    ASSERT_EQ(far_.size(), far);
  }

  void poll() {
    take(lanes_->near_queue(), near_);
    take(lanes_->far_queue(), far_);
  }

  static void take(transport::CompletionQueue& queue, std::vector<Completion>& into) {
    std::array<Completion, 8> some;
    const int count = queue.poll(some);
    ASSERT_GE(count, 0);
    into.insert(into.end(), some.begin(), some.begin() + count);
  }

  static std::vector<std::uint64_t> ids_of(const std::vector<Completion>& completions) {
    std::vector<std::uint64_t> ids;
    for (const Completion& completion : completions) ids.push_back(completion.id);
    return ids;
  }

  static bool all_are(const std::vector<Completion>& completions, CompletionStatus status) {
    return std::ranges::all_of(completions, [&](const auto& one) { return one.status == status; });
  }

  std::unique_ptr<LanePair> lanes_ = GetParam().make();
  std::vector<Completion> near_;
  std::vector<Completion> far_;
};

TEST_P(LaneContract, WritesArriveAndCompleteInTheOrderInWhichTheyWerePosted) {
  constexpr std::uint64_t kWrites = 8;
  for (std::uint64_t i = 0; i < kWrites; ++i) {
    lanes_->near_bytes()[i] = std::byte(i + 1);
    post(operation(Opcode::write, i, 0, 1), i);
  }
  expect_completions(kWrites);
  EXPECT_EQ(ids_of(near_), (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(all_are(near_, CompletionStatus::success));
  EXPECT_EQ(lanes_->far_bytes()[0], std::byte{kWrites});
}

TEST_P(LaneContract, ALongWriteAndItsReadBringEachByte) {
  const auto near = lanes_->near_bytes();
  const std::uint64_t half = near.size() / 2;
  for (std::uint64_t i = 0; i < half; ++i) near[i] = std::byte(i * 7 + i / 256);
  post(operation(Opcode::write, 0, 1, half), 1);
  post(operation(Opcode::read, half, 1, half), 2);
  expect_completions(2);
  EXPECT_TRUE(std::ranges::equal(near.first(half), near.subspan(half)));
  EXPECT_EQ(lanes_->far_bytes()[0], std::byte{0});
}

TEST_P(LaneContract, AWriteAfterAFenceSendsTheBytesOfTheReadBefore) {
  constexpr std::uint64_t kLength = 4096;
  std::ranges::fill(lanes_->far_bytes().first(kLength), std::byte{7});
  post(operation(Opcode::read, 0, 0, kLength), 1);
  Operation fenced = operation(Opcode::write, 0, kLength, kLength);
  fenced.fenced = true;
  post(fenced, 2);
  expect_completions(2);
  EXPECT_EQ(lanes_->far_bytes()[2 * kLength - 1], std::byte{7});
}

TEST_P(LaneContract, AWriteAfterAFenceSendsTheResultOfTheAtomicBefore) {
  std::uint64_t number = 40;
  std::memcpy(lanes_->far_bytes().data(), &number, sizeof number);
  Operation add = operation(Opcode::fetch_add, 0, 0, sizeof number);
  add.compare_or_add = 2;
  post(add, 1);
  Operation fenced = operation(Opcode::write, 0, 64, sizeof number);
  fenced.fenced = true;
  post(fenced, 2);
  Operation swap = operation(Opcode::compare_swap, 8, 0, sizeof number);
  swap.compare_or_add = 42;
  swap.swap = 5;
  post(swap, 3);
  expect_completions(3);
  std::memcpy(&number, &lanes_->far_bytes()[64], sizeof number);
  EXPECT_EQ(number, 40U);
  std::memcpy(&number, &lanes_->near_bytes()[8], sizeof number);
  EXPECT_EQ(number, 42U);
  std::memcpy(&number, lanes_->far_bytes().data(), sizeof number);
  EXPECT_EQ(number, 5U);
}

TEST_P(LaneContract, MessagesAndImmediatesTakeTheReceivesInTheirOrder) {
  post_receives(std::array{receive(10, 0, 64), receive(11, 64, 64), receive(12, 128, 64)});
  const auto near = lanes_->near_bytes();
  near[0] = std::byte{1};
  near[1] = std::byte{2};
  near[100] = std::byte{3};
  const Message both{.header = {address_of(near[0]), 2, lanes_->near_key()},
                     .payload = {address_of(near[100]), 1, lanes_->near_key()}};
  ASSERT_EQ(lanes_->near->post(both, 1), 0);
  Operation put = operation(Opcode::write, 0, 4096, 2);
  put.with_immediate = true;
  put.immediate = 77;
  post(put, 2);
  const Message header{.header = {address_of(near[1]), 1, lanes_->near_key()}};
  ASSERT_EQ(lanes_->near->post(header, 3), 0);
  expect_completions(3, 3);
  EXPECT_EQ(ids_of(near_), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(ids_of(far_), (std::vector<std::uint64_t>{10, 11, 12}));
  EXPECT_EQ(far_[0].by, Completion::By::message);
  EXPECT_EQ(far_[0].bytes, 3U);
  EXPECT_EQ(far_[1].by, Completion::By::write);
  EXPECT_EQ(far_[1].immediate, 77U);
  EXPECT_EQ(far_[1].bytes, 2U);
  EXPECT_EQ(far_[2].bytes, 1U);
  const auto far = lanes_->far_bytes();
  EXPECT_EQ(far[2], std::byte{3}) << "the payload lies behind the header";
  EXPECT_EQ(far[128], std::byte{2});
  EXPECT_EQ(far[4097], std::byte{2});
}

TEST_P(LaneContract, MemoryOfAnInlinedWriteIsFreeOnceItIsPosted) {
  lanes_->near_bytes()[0] = std::byte{9};
  Operation put = operation(Opcode::write, 0, 0, 1);
  put.inlined = lanes_->near->inline_bytes() != 0;
  post(put, 1);
  // A lane that does not inline frees the memory only when the write has completed.
  if (!put.inlined) expect_completions(1);
  lanes_->near_bytes()[0] = std::byte{1};
  expect_completions(1);
  EXPECT_EQ(lanes_->far_bytes()[0], std::byte{9});
}

TEST_P(LaneContract, TheLastCompletionOfAChainEndsAll) {
  std::ranges::fill(lanes_->near_bytes().first(2), std::byte{4});
  // The first request is unsignaled: it has no completion of its own.
  const std::array<Request, 2> chain{
      {{operation(Opcode::write, 0, 0, 1), 1, false}, {operation(Opcode::write, 1, 1, 1), 2}}};
  bool begun = true;
  ASSERT_EQ(lanes_->near->post(chain, begun), 0);
  EXPECT_FALSE(begun);
  expect_completions(1);
  EXPECT_EQ(near_[0].id, 2U);
  EXPECT_EQ(lanes_->far_bytes()[0], std::byte{4});
  EXPECT_EQ(lanes_->far_bytes()[1], std::byte{4});
}

TEST_P(LaneContract, APreparedChainGoesAgainAndAgain) {
  // The first request is unsignaled.
  const std::array<Request, 2> chain{
      {{operation(Opcode::write, 0, 0, 1), 1, false}, {operation(Opcode::write, 1, 1, 1), 2}}};
  const auto prepared = lanes_->near->prepare(chain);
  EXPECT_EQ(prepared->size(), 2U);
  for (std::size_t run = 1; run <= 3; ++run) {
    std::ranges::fill(lanes_->near_bytes().first(2), std::byte(run));
    bool begun = true;
    ASSERT_EQ(lanes_->near->post(*prepared, run == 2, begun), 0);
    EXPECT_FALSE(begun);
    expect_completions(run);
    EXPECT_EQ(lanes_->far_bytes()[0], std::byte(run));
    EXPECT_EQ(lanes_->far_bytes()[1], std::byte(run));
  }
}

TEST_P(LaneContract, AFailureWithinAChainIsReportedAndLaterRequestsAreFlushed) {
  Operation wrong = operation(Opcode::write, 0, 0, 1);
  wrong.remote_key += 4711;
  lanes_->near_bytes()[1] = std::byte{1};
  const std::array<Request, 2> chain{{{wrong, 1, false}, {operation(Opcode::write, 1, 1, 1), 2}}};
  bool begun = false;
  ASSERT_EQ(lanes_->near->post(chain, begun), 0);
  const Deadline deadline = Deadline::after(10s);
  while (near_.empty() && !deadline.passed()) poll();
  ASSERT_FALSE(near_.empty());
  EXPECT_EQ(near_[0].id, 1U);
  EXPECT_EQ(near_[0].status, CompletionStatus::remote_access);
  ASSERT_TRUE(lanes_->near->to_error());
  expect_completions(2);
  EXPECT_EQ(near_[1].id, 2U);
  EXPECT_EQ(near_[1].status, CompletionStatus::flushed);
  EXPECT_EQ(lanes_->far_bytes()[1], std::byte{0}) << "nothing behind a failure is carried out";
}

TEST_P(LaneContract, BreakingOffFlushesPostedAndLaterRequests) {
  post_receives(std::array{receive(10, 0, 64), receive(11, 64, 64)});
  ASSERT_TRUE(lanes_->far->to_error());
  expect_completions(0, 2);
  EXPECT_EQ(ids_of(far_), (std::vector<std::uint64_t>{10, 11}));
  EXPECT_TRUE(all_are(far_, CompletionStatus::flushed));
  EXPECT_FALSE(lanes_->near->in_error());
  ASSERT_TRUE(lanes_->near->to_error());
  lanes_->near_bytes()[0] = std::byte{1};
  post(operation(Opcode::write, 0, 0, 1), 1);
  expect_completions(1, 2);
  EXPECT_EQ(near_[0].status, CompletionStatus::flushed);
  EXPECT_EQ(lanes_->far_bytes()[0], std::byte{0});
}

TEST_P(LaneContract, AFullQueueRefusesAndKeepsItsRequests) {
  constexpr std::uint64_t kMany = 1000;
  std::uint64_t taken = 0;
  int result = 0;
  while (taken < kMany &&
         (result = lanes_->near->post(operation(Opcode::read, 0, 0, 1), taken)) == 0)
    ++taken;
  EXPECT_EQ(result, ENOMEM);
  EXPECT_GE(taken, LanePair::kDepth);
  expect_completions(taken);
  EXPECT_TRUE(all_are(near_, CompletionStatus::success));
  post(operation(Opcode::write, 0, 0, 1), kMany);
  expect_completions(taken + 1);
}

TEST_P(LaneContract, ReceivesBeyondTheQueueAreRefusedAndThoseBeforeThemCounted) {
  constexpr std::size_t kMany = 1000;
  const std::vector<Receive> many(kMany, receive(1, 0, 8));
  std::size_t posted = kMany;
  EXPECT_EQ(lanes_->far->post_receives(many, posted), ENOMEM);
  EXPECT_GE(posted, LanePair::kDepth);
  ASSERT_LT(posted, kMany);
  ASSERT_TRUE(lanes_->far->to_error());
  expect_completions(0, posted);
}

TEST_P(LaneContract, NothingMovesByALaneThatWasCut) {
  post_receives(std::array{receive(10, 4096, 64)});
  lanes_->far->cut();
  lanes_->near_bytes()[0] = std::byte{1};
  post(operation(Opcode::write, 0, 0, 1), 1);
  for (int i = 0; i < 100; ++i) poll();
  EXPECT_EQ(lanes_->far_bytes()[0], std::byte{0});
  EXPECT_FALSE(std::ranges::any_of(near_, &Completion::good));
  lanes_->near->cut();
}

TEST_P(LaneContract, LanesAndQueuesGoInAnyOrderWithRequestsUnderWay) {
  for (const bool far_first : {false, true}) {
    post_receives(std::array{receive(10, 0, 64)});
    post(operation(Opcode::write, 0, 0, LanePair::kBytes), 1);
    lanes_->tear_down(far_first);
    lanes_ = GetParam().make();
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, LaneContract, testing::ValuesIn(lane_ways()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace hbmwire::test
