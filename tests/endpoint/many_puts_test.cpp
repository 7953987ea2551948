// SPDX-License-Identifier: MIT
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "internals.hpp"
#include "put_ends.hpp"

/// Many puts and gets in flight: all of them end, each with its own result.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBlock = 64;

class ManyPuts : public PutEnds {
 protected:
  void SetUp() override {
    PutEnds::SetUp();
    begin();
  }

  void begin(EndpointOptions options = {}, const WorkerOptions& worker_options = {}) {
    options.peer_timeout = 500ms;
    PutEnds::begin(options, worker_options);
  }

  [[nodiscard]] Result<Transfer> put(std::uint64_t block, std::uint64_t bytes = kBlock) {
    return ends_->a->put(source_->slice(block * kBlock, bytes),
                         remote_.slice(block * kBlock, bytes));
  }

  [[nodiscard]] std::vector<Transfer> puts(std::uint64_t count, std::uint64_t bytes = kBlock) {
    std::vector<Transfer> all;
    for (std::uint64_t i = 0; i < count; ++i) all.push_back(value(put(i, bytes)));
    return all;
  }

  /// Drives only this end's worker, which is enough for puts.
  void finish(std::vector<Transfer>& transfers) {
    const Deadline deadline = Deadline::after(5s);
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      while (!transfers[i].done()) {
        ends_->a_worker.progress();
        ASSERT_FALSE(deadline.passed()) << "transfer " << i << " is never over";
      }
      EXPECT_TRUE(value(transfers[i].poll())) << "transfer " << i;
    }
  }

  void expect_arrived(std::uint64_t blocks) {
    const auto sent = source_->contents();
    const auto there = target_->contents();
    EXPECT_TRUE(same_bytes({there.begin(), there.begin() + static_cast<long>(blocks * kBlock)},
                           {sent.begin(), sent.begin() + static_cast<long>(blocks * kBlock)}));
  }

  void expect_none_left() {
    const auto none = put(0);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::exhausted);
  }

  /// Acts as if that many requests had been posted and had completed.
  void pass(std::uint32_t requests) {
    ASSERT_EQ(a().outstanding, 0U);
    internals::skip_requests(ends_->a_worker, requests);
  }
};

TEST_F(ManyPuts, APutLooksAtThreeCacheLinesOfItsEndpoint) {
  const internals::PutView view = internals::look_at_put(ends_->a_worker);
  EXPECT_EQ(view.begin, 0U);
  EXPECT_LE(view.bytes, 192U);
}

TEST_F(ManyPuts, AWindowThatIsKeptFullEnds) {
  constexpr std::uint64_t kWindow = 64;
  std::vector<Transfer> window(kWindow);
  for (std::uint64_t i = 0; i < 40 * kWindow; ++i) {
    Transfer& transfer = window[i % kWindow];
    while (transfer && !transfer.done()) ends_->a_worker.progress();
    transfer = value(put(i % kWindow));
  }
  finish(window);
}

TEST_F(ManyPuts, EachNumberOfPutsEnds) {
  for (std::uint64_t count = 1; count <= 128; ++count) {
    target_->fill(2);
    auto all = puts(count);
    finish(all);
    expect_arrived(count);
    if (HasFatalFailure()) FAIL() << count << " puts";
  }
}

TEST_F(ManyPuts, MorePutsThanTheQueueTakesWait) {
  for (const std::uint32_t depth : {4U, 5U, 16U, 30U}) {
    for (const std::uint64_t count : {depth - 1, depth, 200U}) {
      begin({.send_depth = depth});
      auto all = puts(count);
      finish(all);
      expect_arrived(count);
      EXPECT_EQ(a().room, depth);
    }
  }
}

/// Completions arrive while more is posted: progress() is called after each 1 to 40 puts.
TEST_F(ManyPuts, PutsPostedBetweenTwoLooksEnd) {
  for (std::uint64_t between = 1; between <= 40; ++between) {
    target_->fill(2);
    std::vector<Transfer> all;
    for (std::uint64_t i = 0; i < 400; ++i) {
      all.push_back(value(put(i)));
      if (i % between == 0) ends_->a_worker.progress();
    }
    finish(all);
    expect_arrived(400);
    if (HasFatalFailure()) FAIL() << between << " puts between two looks";
  }
}

TEST_F(ManyPuts, OtherOperationsBetweenPutsEndInTheirOrder) {
  target_->fill(2);
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::uint64_t at = i * kBlock;
    const Slice here = source_->slice(at, kBlock);
    const RemoteSlice there = remote_.slice(at, kBlock);
    switch (i % 13) {
      case 5:
        all.push_back(value(ends_->a->put(here, there, {.level = CompletionLevel::visible})));
        break;
      case 7:
        good(ends_->a->fence());
        [[fallthrough]];
      case 9:
        all.push_back(value(ends_->a->put(here, there)));
        break;
      case 11:
        all.push_back(value(ends_->a->flush()));
        [[fallthrough]];
      default:
        all.push_back(value(ends_->a->put(here, there)));
    }
    if (i % 50 == 49) ends_->a_worker.progress();
  }
  finish(all);
  expect_arrived(300);
}

TEST_F(ManyPuts, ManyGetsEnd) {
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 100; ++i)
    all.push_back(value(
        ends_->a->get(source_->slice(i * kBlock, kBlock), remote_.slice(i * kBlock, kBlock))));
  finish(all);
  expect_arrived(100);
}

TEST_F(ManyPuts, ASleeperIsWokenForTheLastPut) {
  for (const std::uint64_t count : {1U, 3U, 20U, 64U, 100U}) {
    auto all = puts(count);
    while (!all.back().done()) {
      if (!value(ends_->a_worker.arm())) continue;
      pollfd waits{ends_->a_worker.fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&waits, 1, 5000), 1) << "of " << count << " puts the last is never over";
    }
    finish(all);
  }
}

TEST_F(ManyPuts, TheLibrarysOwnThreadSeesTheEndOfAllPuts) {
  begin({}, {.progress_thread = true});
  for (int round = 0; round < 20; ++round) {
    auto all = puts(100);
    for (auto& transfer : all) good(transfer.wait(within(5s)));
  }
  expect_arrived(100);
}

TEST_F(ManyPuts, EndpointsOfAWorkerDoNotWaitForEachOther) {
  auto [here, there] = invite(ends_->a_worker, ends_->b_worker);
  const RemoteRegion other = value(here.remote(value(RemoteKey::unpack(key_->bytes()))));
  for (std::uint64_t i = 0; i < 40; ++i) {
    auto all = puts(40 + i);
    // Other blocks than those of the first endpoint.
    std::vector<Transfer> others;
    for (std::uint64_t block = 0; block < 60; ++block) {
      others.push_back(value(here.put(source_->slice((500 + block) * kBlock, kBlock),
                                      other.slice((500 + block) * kBlock, kBlock))));
    }
    finish(others);
    finish(all);
  }
  // The last round put 79 blocks by the first endpoint.
  expect_arrived(79);
}

TEST_F(ManyPuts, AnEndpointGoesWithTheLastPutsUnderWay) {
  auto all = puts(50);
  ends_->a.reset();
  ends_->drive([&] { return internals::count_endpoints(ends_->a_worker) == 0; });
  for (auto& transfer : all) EXPECT_TRUE(transfer.done());
}

TEST_F(ManyPuts, AWorkerGoesWithTheLastPutsUnderWay) {
  auto [here, there] = invite(ends_->a_worker, ends_->b_worker);
  const RemoteRegion other = value(here.remote(value(RemoteKey::unpack(key_->bytes()))));
  auto all = puts(50);
  for (std::uint64_t i = 0; i < 50; ++i)
    all.push_back(value(here.put(source_->slice(0, kBlock), other.slice(0, kBlock))));
}

TEST_F(ManyPuts, DroppedHandlesGiveTheirTransfersBack) {
  begin({}, {.max_transfers = 128});
  for (int round = 0; round < 50; ++round) {
    for (std::uint64_t i = 0; i < 100; ++i) value(put(i)).reset();
    ends_->drive([&] { return a().outstanding == 0; });
  }
  EXPECT_EQ(internals::look_at(ends_->a_worker).free_transfers, 128U);
}

/// A handle remembers its place in the queue. Places are counted with 32 bits, and wrap around
/// here.
TEST_F(ManyPuts, AHandleThatIsKeptForLongStaysOver) {
  auto all = puts(20);
  finish(all);
  for (int quarter = 1; quarter <= 5; ++quarter) {
    pass(1U << 30U);
    for (const Transfer& transfer : all) EXPECT_TRUE(transfer.done()) << quarter << " quarters";
    auto more = puts(20);
    finish(more);
  }
  for (Transfer& transfer : all) EXPECT_TRUE(value(transfer.poll()));
}

TEST_F(ManyPuts, TransfersThatAreOverStaySoWithoutTheirEndpoint) {
  auto all = puts(50);
  ends_->drive([&] { return a().outstanding == 0; });
  ends_->a.reset();
  ends_->drive([&] { return internals::count_endpoints(ends_->a_worker) == 0; });
  for (Transfer& transfer : all) {
    EXPECT_TRUE(transfer.done());
    EXPECT_TRUE(value(transfer.poll()));
  }
}

TEST_F(ManyPuts, EndpointsShareTheTransfersOfTheirWorker) {
  begin({}, {.max_transfers = 8});
  auto [here, there] = invite(ends_->a_worker, ends_->b_worker);
  const RemoteRegion other = value(here.remote(value(RemoteKey::unpack(key_->bytes()))));
  for (int round = 0; round < 10; ++round) {
    auto all = puts(8);
    expect_none_left();
    finish(all);
    all.clear();
    for (std::uint64_t block = 0; block < 8; ++block)
      all.push_back(value(here.put(source_->slice(0, kBlock), other.slice(0, kBlock))));
    expect_none_left();
    finish(all);
  }
  EXPECT_EQ(internals::look_at(ends_->a_worker).free_transfers, 8U);
}

/// The puts' completions have not been polled when the queue pair fails.
TEST_F(ManyPuts, PutsBeforeAFailureSucceed) {
  auto all = puts(50);
  // The request of the put is accepted, and the read behind it refused, so the queue pair fails.
  refuse_requests(1, 1, ENOMEM);
  auto broken = ends_->a->put(source_->slice(0, kBlock), remote_.slice(0, kBlock),
                              {.level = CompletionLevel::visible});
  refuse_requests(0, 0, 0);
  ends_->drive([&] { return ends_->a->phase() == EndpointPhase::failed; });
  ASSERT_EQ(ends_->a->phase(), EndpointPhase::failed);
  finish(all);
  expect_arrived(50);
}

/// The queue also refuses the request that was to return after the broken one.
TEST_F(ManyPuts, PutsBeforeTheQueueRefusesAllSucceed) {
  auto all = puts(50);
  refuse_requests(1, 1000, ENOMEM);
  auto broken = ends_->a->put(source_->slice(0, kBlock), remote_.slice(0, kBlock),
                              {.level = CompletionLevel::visible});
  ends_->a_worker.progress();
  refuse_requests(0, 0, 0);
  ends_->drive([&] { return ends_->a->phase() == EndpointPhase::failed; });
  finish(all);
  EXPECT_TRUE(a().lanes_cut);
}

/// A later poll notices the peer's end; no request is refused.
TEST_F(ManyPuts, PutsBeforeThePeersEndSucceed) {
  auto all = puts(50);
  ends_->b.reset();
  ends_->drive([&] { return ends_->a->phase() == EndpointPhase::closed; });
  finish(all);
  expect_arrived(50);
}

/// A NIC refuses the n-th request, whatever it is. The error concerns only the transfer of this
/// request.
TEST_F(ManyPuts, ARefusedRequestFailsItsOwnPutAlone) {
  for (unsigned long long n = 0; n < 70; ++n) {
    begin();
    refuse_requests(n, 1, ENOMEM);
    std::vector<Transfer> all;
    std::uint64_t refused = 0;
    for (std::uint64_t i = 0; i < 60; ++i) {
      if (auto transfer = put(i)) {
        all.push_back(std::move(*transfer));
      } else {
        EXPECT_EQ(transfer.error().number, ENOMEM) << describe(transfer.error());
        ++refused;
      }
    }
    ends_->drive([&] { return all.back().done(); });
    refuse_requests(0, 0, 0);
    for (Transfer& transfer : all) {
      ASSERT_TRUE(transfer.done()) << "request " << n;
      // For n >= 60 the refused request is a probe, so the endpoint fails.
      const bool ready = ends_->a->phase() == EndpointPhase::ready;
      EXPECT_TRUE(!ready || value(transfer.poll()));
    }
    EXPECT_EQ(refused, n < 60 ? 1U : 0U);
    EXPECT_TRUE(n >= 60 || ends_->a->phase() == EndpointPhase::ready) << "request " << n;
  }
}

/// A request is reused for the next one, which may be longer, shorter, a get, or signaled. No value
/// of the earlier one remains.
TEST_F(ManyPuts, EachLengthAndDirectionMayFollowAnyOther) {
  constexpr std::array<std::uint64_t, 4> kLengths{8, 1024, 4096, 8192};
  Memory brought(ends_->context, MemoryType::host, kBytes);
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 200; ++i) {
    // The sequence in which each length follows each other one.
    const std::uint64_t length = kLengths.at(i % 4 ^ i / 4 % 4);
    const bool gets = i % 3 == 0;
    const Slice here = gets ? brought.slice(0, length) : source_->slice(0, length);
    const RemoteSlice there = remote_.slice(0, length);
    all.push_back(value(gets ? ends_->a->get(here, there) : ends_->a->put(here, there)));
    EXPECT_EQ(all.back().bytes(), length);
    EXPECT_EQ(all.back().explain().protocol,
              length == 8 && !gets ? Protocol::inlined : Protocol::direct);
    while (a().room < 64) ends_->a_worker.progress();
  }
  finish(all);
  expect_arrived(8192 / kBlock);
}

TEST_F(ManyPuts, ALongPutThatIsRefusedHasNotBegun) {
  constexpr std::uint64_t kLong = 8192;
  for (unsigned long long n = 0; n < 40; ++n) {
    begin();
    refuse_requests(n, 1, ENOMEM);
    std::vector<Transfer> all;
    for (std::uint64_t i = 0; i < 40; ++i) {
      auto transfer = put(0, kLong);
      ASSERT_EQ(transfer.has_value(), i != n);
      if (transfer) {
        all.push_back(std::move(*transfer));
      } else {
        EXPECT_EQ(transfer.error().number, ENOMEM) << describe(transfer.error());
      }
    }
    refuse_requests(0, 0, 0);
    finish(all);
    expect_arrived(kLong / kBlock);
    EXPECT_EQ(a().outstanding, 0U);
  }
}

/// A deadline ends transfers in flight, not those that have completed but are not reported yet.
TEST_F(ManyPuts, AWaitWithoutTimeFindsPutsThatAreOver) {
  for (int round = 0; round < 20; ++round) {
    auto all = puts(64);
    std::this_thread::sleep_for(5ms);
    for (std::size_t i = all.size(); i-- != 0;) good(all[i].wait(within(0ns)));
    auto more = puts(64);
    std::this_thread::sleep_for(5ms);
    good(more.back().wait(0ns));
    ASSERT_EQ(ends_->a->phase(), EndpointPhase::ready);
  }
}

/// A transfer object that a prepared list used before is not mistaken for that list's.
TEST_F(ManyPuts, AReusedTransferIsNotTakenForAPreparedOne) {
  const std::vector<TransferPart> parts{{source_->slice(0, kBlock), remote_.slice(0, kBlock)}};
  auto prepared = value(ends_->a->prepare_put(parts));
  good(value(prepared.post()).wait(within(5s)));
  Transfer put = value(this->put(1));
  ASSERT_FALSE(put.done());
  good(value(prepared.post()).wait(within(5s)));
}

TEST_F(ManyPuts, TransfersThatAreOverCountUntilTheirHandlesGo) {
  begin({}, {.max_transfers = 8});
  auto all = puts(8);
  finish(all);
  expect_none_left();
  all.pop_back();
  all.push_back(value(put(0)));
  expect_none_left();
  finish(all);
}

/// The cached check of one put is not used for the next one's regions.
TEST_F(ManyPuts, EachPutUsesItsOwnRegions) {
  Memory other(ends_->context, MemoryType::host, kBytes);
  Memory read_only(ends_->context, MemoryType::host, kBytes, Access::remote_read);
  other.fill(3);
  const MemoryKey other_key = value(MemoryKey::pack(other.region()));
  const MemoryKey read_key = value(MemoryKey::pack(read_only.region()));
  const RemoteRegion there = value(ends_->a->remote(value(RemoteKey::unpack(other_key.bytes()))));
  const RemoteRegion closed = value(ends_->a->remote(value(RemoteKey::unpack(read_key.bytes()))));
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 90; ++i) {
    const RemoteRegion& region = i % 2 == 0 ? there : remote_;
    const Slice from = (i % 3 == 0 ? other : *source_).slice(i * kBlock, kBlock);
    all.push_back(value(ends_->a->put(from, region.slice(i * kBlock, kBlock))));
    const auto refused = ends_->a->put(from, closed.slice(0, kBlock));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::permission_denied) << describe(refused.error());
  }
  finish(all);
  for (const Transfer& transfer : all) {
    EXPECT_EQ(transfer.path(), Path::host);
    EXPECT_EQ(transfer.bytes(), kBlock);
  }
}

/// The access that a put needs does not imply the access that a get needs.
TEST_F(ManyPuts, MemoryThatMayBeReadMayNotBeWritten) {
  const auto remote_of = [&](const Memory& memory) {
    const MemoryKey key = value(MemoryKey::pack(memory.region()));
    return value(ends_->a->remote(value(RemoteKey::unpack(key.bytes()))));
  };
  const auto expect_refused = [](const Result<Transfer>& started) {
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Errc::permission_denied) << describe(started.error());
  };
  Memory written(ends_->context, MemoryType::host, kBytes,
                 Access::local_write | Access::remote_write);
  Memory read(ends_->context, MemoryType::host, kBytes, Access::remote_read);
  const RemoteRegion to = remote_of(written);
  const RemoteRegion from = remote_of(read);
  const Slice here = source_->slice(0, kBlock);
  std::vector<Transfer> all;
  for (int round = 0; round < 10; ++round) {
    all.push_back(value(ends_->a->get(here, from.slice(0, kBlock))));
    expect_refused(ends_->a->put(here, from.slice(0, kBlock)));
    all.push_back(value(ends_->a->put(here, to.slice(0, kBlock))));
    expect_refused(ends_->a->get(here, to.slice(0, kBlock)));
  }
  finish(all);
}

}  // namespace
}  // namespace hbmwire::test
