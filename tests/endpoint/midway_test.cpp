// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "put_ends.hpp"

/// A NIC that refuses requests: ibv_post_send(3) refuses one, also in the middle of a chain, after
/// posting those before it.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = 64 << 10;
constexpr std::uint64_t kBlock = 1024;
constexpr std::uint64_t kBlocks = 20;

using Clock = std::chrono::steady_clock;

class Midway : public PutEnds {
 protected:
  void SetUp() override {
    PutEnds::SetUp();
    begin();
  }

  void begin(std::uint32_t send_depth = 16) {
    EndpointOptions options;
    options.send_depth = send_depth;
    options.peer_timeout = 300ms;
    PutEnds::begin(options, {.max_transfers = 64});
  }

  std::uint32_t posted_ = 0;

  [[nodiscard]] std::vector<TransferPart> blocks() const {
    std::vector<TransferPart> parts;
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      parts.push_back({source_->slice(i * kBlock, kBlock), remote_.slice(i * kBlock, kBlock)});
    return parts;
  }

  /// Expects that the transfer and both ends have failed because of the refusal, that nothing moves
  /// any more, and that nothing is left behind.
  void expect_broken(Transfer transfer) {
    const auto begun = Clock::now();
    ends_->drive([&] { return transfer.done(); });
    EXPECT_LT(Clock::now() - begun, 3s);
    const auto over = transfer.poll();
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().number, ENOMEM) << describe(over.error());
    EXPECT_STREQ(over.error().call, "ibv_post_send");
    EXPECT_TRUE(transfer.settled());
    const auto reported = target_->contents();
    EXPECT_EQ(ends_->a->phase(), EndpointPhase::failed);
    EXPECT_EQ(a().outstanding, 0U);
    EXPECT_EQ(a().moving, 0U);
    EXPECT_TRUE(a().nothing_waits);
    ends_->drive([&] { return ends_->b->phase() == EndpointPhase::failed; });
    EXPECT_TRUE(same_bytes(target_->contents(), reported)) << "bytes changed after the report";
    transfer.reset();
    EXPECT_EQ(internals::look_at(ends_->a_worker).free_transfers, 64U);
    const bool lanes_cut = a().lanes_cut;
    ends_->a.reset();
    ends_->b.reset();
    if (lanes_cut) return;  // this endpoint exists until its worker is destroyed
    ends_->drive([&] {
      return internals::count_endpoints(ends_->a_worker) == 0 &&
             internals::count_endpoints(ends_->b_worker) == 0;
    });
  }
};

TEST_F(Midway, TheReadBehindAPutIsRefused) {
  refuse_requests(1, 1, ENOMEM);
  auto put = ends_->a->put(source_->slice(0, 100), remote_.slice(0, 100),
                           {.level = CompletionLevel::visible});
  expect_broken(value(std::move(put)));
}

TEST_F(Midway, APutThatIsRefusedAtOnceChangesNothing) {
  for (const CompletionLevel level : {CompletionLevel::arrived, CompletionLevel::visible}) {
    for (const std::uint64_t bytes : {0U, 100U}) {
      refuse_requests(0, 1, ENOMEM);
      const auto put =
          ends_->a->put(source_->slice(0, bytes), remote_.slice(0, bytes), {.level = level});
      refuse_requests(0, 0, 0);
      ASSERT_FALSE(put);
      EXPECT_EQ(put.error().number, ENOMEM) << describe(put.error());
      EXPECT_EQ(a().outstanding, 0U);
      EXPECT_EQ(a().room, 16U);
      EXPECT_EQ(internals::look_at(ends_->a_worker).free_transfers, 64U);
    }
  }
  Transfer put = value(ends_->a->put(source_->slice(0, 100), remote_.slice(0, 100)));
  ends_->drive([&] { return put.done(); });
  EXPECT_TRUE(value(put.poll()));
}

TEST_F(Midway, EachRequestOfBlocksByNumbersIsRefused) {
  std::vector<std::uint32_t> from;
  std::vector<std::uint32_t> to;
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    from.push_back(2 * i);
    to.push_back(static_cast<std::uint32_t>(kBlocks) - 1 - i);
  }
  for (unsigned long long n = 0; n <= kBlocks; ++n) {
    begin();
    std::optional<BlockTable> here = value(BlockTable::create(std::array{source_->all()}, kBlock));
    const auto there =
        value(RemoteBlockTable::create(std::array{remote_.slice(0, kBytes)}, kBlock));
    refuse_requests(n, 1, ENOMEM);
    expect_broken(
        value(ends_->a->put_blocks(*here, from, there, to, {.level = CompletionLevel::visible})));
    here.reset();  // before its region, which begin() destroys
  }
}

TEST_F(Midway, EachRequestOfAListIsRefused) {
  for (unsigned long long n = 0; n <= kBlocks; ++n) {
    begin();
    PreparedTransfer list =
        value(ends_->a->prepare_put(blocks(), {.level = CompletionLevel::visible}));
    refuse_requests(n, 1, ENOMEM);
    Transfer run = value(list.post());
    // A later put waits behind the list, and has not even begun.
    auto behind = ends_->a->put(source_->slice(0, 100), remote_.slice(0, 100));
    if (behind) {
      ends_->drive([&] { return behind->done(); });
      EXPECT_FALSE(behind->poll());
      behind->reset();
    }
    expect_broken(std::move(run));
  }
}

TEST_F(Midway, EachPieceOfALongPutIsRefused) {
  for (unsigned long long n = 0; n < 8; ++n) {
    begin();
    internals::limit_messages(ends_->a_worker, 1000);
    refuse_requests(n, 1, ENOMEM);
    expect_broken(value(ends_->a->put(source_->slice(0, 8000), remote_.slice(0, 8000),
                                      {.level = CompletionLevel::visible})));
  }
}

TEST_F(Midway, LongPutsGetsAndListsArriveWholeInPieces) {
  internals::limit_messages(ends_->a_worker, 5000);
  const auto in_pieces = [&](Result<Transfer> started, std::uint32_t pieces) {
    Transfer transfer = value(std::move(started));
    ends_->drive([&] { return transfer.done(); });
    EXPECT_TRUE(value(transfer.poll()));
    EXPECT_GE(a().posted - posted_, pieces) << "in one piece";
    posted_ = a().posted;
  };
  posted_ = a().posted;
  in_pieces(ends_->a->put(source_->slice(0, 12001), remote_.slice(7, 12001)), 3);
  const std::vector<TransferPart> parts{{source_->slice(0, 20001), remote_.slice(20000, 20001)}};
  PreparedTransfer list = value(ends_->a->prepare_put(parts));
  in_pieces(list.post(), 5);
  Memory back(ends_->context, MemoryType::host, kBytes);
  back.fill(3);
  in_pieces(ends_->a->get(back.slice(1, 12001), remote_.slice(7, 12001)), 3);
  const std::vector<TransferPart> parts_back{
      {back.slice(20000, 20001), remote_.slice(20000, 20001)}};
  PreparedTransfer list_back = value(ends_->a->prepare_get(parts_back));
  in_pieces(list_back.post(), 5);
  auto expected = pattern(kBytes, 2);
  // Two transfers moved the first bytes of pattern 1 to these offsets.
  overlay(expected, 7, 0, 1, 12001);
  overlay(expected, 20000, 0, 1, 20001);
  EXPECT_TRUE(same_bytes(target_->contents(), expected));
  expected = pattern(kBytes, 3);
  // Two transfers moved the first bytes of pattern 1 to these offsets.
  overlay(expected, 1, 0, 1, 12001);
  overlay(expected, 20000, 0, 1, 20001);
  EXPECT_TRUE(same_bytes(back.contents(), expected));
}

TEST_F(Midway, TheQueueTakesNothingMoreAtAll) {
  // Even the request that would report the others' end, and the message to the peer, are refused.
  // The queue pair is destroyed in time.
  PreparedTransfer list = value(ends_->a->prepare_put(blocks()));
  refuse_requests(3, 1000, ENOMEM);
  Transfer run = value(list.post());
  for (int i = 0; i < 1000; ++i) ends_->a_worker.progress();
  EXPECT_FALSE(run.done()) << "what was posted has not come back";
  refuse_requests(0, 0, 0);
  const auto begun = Clock::now();
  expect_broken(std::move(run));
  EXPECT_GT(Clock::now() - begun, 1s);
}

/// Runs all kinds of transfers, in both directions, between host and device memory. All of them
/// must end.
void work(Ends& ends, unsigned long long refused) {
  const Context& context = ends.context;
  Memory host(context, MemoryType::host, kBytes);
  Memory closed(context, MemoryType::host, kBytes, Access::local_write);
  Memory device(context, MemoryType::gaudi, kBytes);
  const MemoryKey key = value(MemoryKey::pack(device.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  std::deque<Transfer> all;
  const auto start = [&](Result<Transfer> transfer) {
    if (transfer) {
      all.push_back(std::move(*transfer));
    } else {
      EXPECT_FALSE(describe(transfer.error()).empty());
    }
  };
  const auto finish = [&] {
    const Deadline deadline = Deadline::after(5s);
    const auto over = [&] { return std::ranges::all_of(all, &Transfer::done); };
    while (!over() && !deadline.passed()) {
      ends.a_worker.progress();
      ends.b_worker.progress();
      // The receive may wait for a message that was never sent.
      const bool broken = ends.a->phase() != EndpointPhase::ready ||
                          ends.b->phase() != EndpointPhase::ready || all.size() % 2 != 0;
      if (!broken) continue;
      for (int i = 0; i < 2000; ++i) {
        ends.a_worker.progress();
        ends.b_worker.progress();
      }
      for (Transfer& transfer : all) static_cast<void>(transfer.cancel());
    }
    for (Transfer& transfer : all) {
      EXPECT_TRUE(transfer.done());
      if (const auto result = transfer.poll(); !result) {
        EXPECT_FALSE(describe(result.error()).empty());
      }
    }
    all.clear();
  };
  refuse_requests(refused, 1, ENOMEM);
  for (const bool back : {false, true}) {
    Endpoint& from = back ? *ends.b : *ends.a;
    Endpoint& to = back ? *ends.a : *ends.b;
    std::uint64_t tag = 0;
    for (const std::uint64_t bytes : {0U, 40U, 5000U, 20000U}) {
      for (const Memory* const source : {&host, &closed, &device}) {
        const Memory& target = source == &closed ? host : device;
        start(to.receive(target.slice(32768, bytes), TagMatch{++tag}));
        start(from.send(source->slice(0, bytes), tag, {.level = CompletionLevel::arrived}));
        finish();
      }
    }
  }
  start(ends.a->put(host.slice(0, 5000), remote.slice(0, 5000),
                    {.level = CompletionLevel::visible, .immediate = 1}));
  start(ends.b->receive_immediate(device.slice(0, 5000)));
  finish();
  start(ends.a->get(device.slice(8192, 5000), remote.slice(0, 5000)));
  start(ends.a->flush());
  finish();
}

TEST(MidwaySweep, EachRefusedRequestLeavesADefiniteOutcomeAndNothingBehind) {
  set_log_sink([](LogLevel, std::string_view) {});
  unsigned failures = 0;
  for (unsigned long long n = 0; n < 120; ++n) {
    SCOPED_TRACE("request " + std::to_string(n));
    {
      EndpointOptions options;
      options.peer_timeout = 100ms;
      Ends ends(options, {.max_transfers = 64});
      const auto begun = Clock::now();
      work(ends, n);
      refuse_requests(0, 0, 0);
      EXPECT_LT(Clock::now() - begun, 3s);
      const bool broken =
          ends.a->phase() != EndpointPhase::ready || ends.b->phase() != EndpointPhase::ready;
      failures += broken ? 1 : 0;
      for (const Worker* const worker : {&ends.a_worker, &ends.b_worker}) {
        EXPECT_EQ(internals::look_at(*worker).free_transfers, 64U);
        for (std::size_t i = 0; i < internals::look_at(*worker).endpoints; ++i) {
          const auto look = [&] { return internals::look_at_endpoint(*worker, i); };
          EXPECT_EQ(look().moving, 0U);
          if (broken) continue;
          ends.drive([&] { return look().outstanding == 0; });
          EXPECT_EQ(look().room, options.send_depth);
        }
      }
    }
    EXPECT_EQ(live_objects(), "");
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(failures, 50U) << "too few of the refused requests ended a connection";
  set_log_sink({});
}

}  // namespace
}  // namespace hbmwire::test
