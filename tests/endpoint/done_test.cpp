// SPDX-License-Identifier: MIT
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

/// How a program learns that transfers have ended (docs/endpoint.md).
namespace hbmwire::test {
namespace {

bool is_readable(int fd, int timeout_ms) {
  pollfd asked{fd, POLLIN, 0};
  return ::poll(&asked, 1, timeout_ms) == 1;
}

/// Runs until `worker` has nothing to do, so that its descriptor may be slept on.
void settle(Worker& worker) {
  const Deadline end = Deadline::after(10s);
  while (!value(worker.arm()) && !end.passed()) {
    while (worker.progress() != 0) {
    }
  }
}

/// Waits until next_done() reports a transfer.
Done take(Worker& worker) {
  const Deadline end = Deadline::after(10s);
  while (!end.passed()) {
    if (auto done = worker.next_done()) return std::move(*done);
  }
  ADD_FAILURE() << "no transfer was reported";
  return {};
}

class NextDone : public testing::Test {
 protected:
  explicit NextDone(const WorkerOptions& options = {}) : ends(EndpointOptions{}, options) {}

  [[nodiscard]] RemoteRegion remote() {
    const MemoryKey key = value(MemoryKey::pack(theirs.region()));
    return value(ends.a->remote(key.bytes()));
  }

  Ends ends;
  Memory ours{ends.context, MemoryType::host, 4096};
  Memory theirs{ends.context, MemoryType::host, 4096};
};

TEST_F(NextDone, TellsInTheOrderInWhichTransfersEnded) {
  const RemoteRegion there = remote();
  std::vector<Transfer> puts;
  for (std::uint64_t i = 0; i < 50; ++i) {
    puts.push_back(value(ends.a->put(ours.slice(0, i), there.slice(0, i))));
    puts.back().notify(i);
  }
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Done done = take(ends.a_worker);
    EXPECT_EQ(done.cookie, i);
    EXPECT_EQ(done.bytes, i);
    EXPECT_TRUE(done.result);
    EXPECT_TRUE(puts[i].done());
  }
  EXPECT_FALSE(ends.a_worker.next_done());
}

TEST_F(NextDone, ReportsEndedTransfersAtOnce) {
  const RemoteRegion there = remote();
  Transfer put = value(ends.a->put(ours.slice(0, 8), there.slice(0, 8)));
  good(put.wait(10s));
  put.notify(1);
  put.notify(2);  // the last cookie wins
  EXPECT_FALSE(value(ends.a_worker.arm()));
  const auto done = ends.a_worker.next_done();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->cookie, 2U);
  EXPECT_FALSE(ends.a_worker.next_done());
  put.notify(3);  // notification may be requested again
  EXPECT_EQ(take(ends.a_worker).cookie, 3U);
}

TEST_F(NextDone, TellsTheLastCookieOfATransferUnderWay) {
  Transfer receive = value(ends.a->receive(ours.slice(0, 8)));
  receive.notify(1);
  receive.notify(2);
  good(receive.request_cancel());
  EXPECT_EQ(take(ends.a_worker).cookie, 2U);
  EXPECT_FALSE(ends.a_worker.next_done());
}

TEST_F(NextDone, AnUntakenReportDoesNotEndTheWorkersWaitEarly) {
  Transfer first = value(ends.a->receive(ours.slice(0, 8), TagMatch{.tag = 1}));
  first.notify(1);
  good(first.request_cancel());  // cancelled, and not taken by next_done()
  Transfer second = value(ends.a->receive(ours.slice(0, 8), TagMatch{.tag = 2}));
  Transfer send = value(ends.b->send(theirs.slice(0, 8), 2));
  const Deadline end = Deadline::after(10s);
  while (!second.done() && !end.passed()) good(ends.a_worker.wait(within(1s)));
  EXPECT_TRUE(second.done());
  EXPECT_EQ(take(ends.a_worker).cookie, 1U);
}

TEST_F(NextDone, AWorkerMayGoWithSomethingToTell) {
  std::vector<Transfer> all;
  for (std::uint64_t i = 0; i < 6; ++i) {
    all.push_back(value(ends.a->receive(ours.slice(0, 8), TagMatch{.tag = i})));
    all.back().notify(i);
    if (i < 3) good(all.back().request_cancel());
    if (i % 2 == 0) all.back().reset();
  }
  ends.a.reset();
  // The worker of these transfers goes, too.
  { const Worker gone = std::exchange(ends.a_worker, value(Worker::create(ends.context))); }
  for (Transfer& transfer : all) {
    if (!transfer) continue;
    EXPECT_TRUE(transfer.done());
    // notify() does nothing without the worker.
    transfer.notify(7);
    transfer.reset();
  }
}

TEST_F(NextDone, TellsOfAMessageItsLengthAndTag) {
  Transfer receive = value(ends.b->receive(theirs.slice(0, 100), TagMatch{.tag = 7}));
  receive.notify(70);
  receive.reset();
  Transfer send = value(ends.a->send(ours.slice(0, 33), 7));
  send.notify(71);
  const Deadline end = Deadline::after(10s);
  std::optional<Done> received;
  while (!received && !end.passed()) {
    ends.a_worker.progress();
    received = ends.b_worker.next_done();
  }
  ASSERT_TRUE(received);
  EXPECT_EQ(received->cookie, 70U);
  EXPECT_EQ(received->bytes, 33U);
  EXPECT_EQ(received->value, 7U);
  EXPECT_EQ(take(ends.a_worker).cookie, 71U);
}

TEST_F(NextDone, ReportsTheResultOfAnAtomic) {
  const RemoteRegion there = remote();
  theirs.set(std::vector<std::byte>(4096));
  for (std::uint64_t i = 0; i < 3; ++i) {
    Transfer add = value(ends.a->fetch_add(there.slice(0, 8), 5));
    add.notify(i);
    add.reset();
    const Done done = take(ends.a_worker);
    EXPECT_EQ(done.cookie, i);
    EXPECT_EQ(done.value, i * 5);
  }
}

TEST_F(NextDone, TellsOfTransfersOfAnEndpointThatFailed) {
  std::vector<Transfer> receives;
  for (std::uint64_t i = 0; i < 4; ++i) {
    receives.push_back(value(ends.a->receive(ours.slice(0, 100))));
    receives.back().notify(i);
  }
  receives[3].reset();
  ends.a.reset();
  std::array<bool, 4> told{};
  for (int i = 0; i < 4; ++i) {
    const Done done = take(ends.a_worker);
    ASSERT_LT(done.cookie, 4U);
    EXPECT_FALSE(told.at(done.cookie));
    told.at(done.cookie) = true;
    ASSERT_FALSE(done.result);
    EXPECT_EQ(done.result.error().code, Errc::cancelled);
  }
}

TEST_F(NextDone, MakesTheWorkersDescriptorReadable) {
  settle(ends.a_worker);
  EXPECT_FALSE(is_readable(ends.a_worker.fd(), 0));
  Transfer receive = value(ends.a->receive(ours.slice(0, 100)));
  receive.notify(1);
  settle(ends.a_worker);
  EXPECT_FALSE(is_readable(ends.a_worker.fd(), 0));
  // A call of this thread ends the receive, which the NIC reports by no event.
  good(receive.request_cancel());
  EXPECT_TRUE(is_readable(ends.a_worker.fd(), 0));
  EXPECT_FALSE(value(ends.a_worker.arm()));
  good(ends.a_worker.wait(within(0ns)));
  EXPECT_EQ(take(ends.a_worker).cookie, 1U);
  settle(ends.a_worker);
  EXPECT_FALSE(is_readable(ends.a_worker.fd(), 0));
  // The peer's message ends the next receive.
  Transfer next = value(ends.a->receive(ours.slice(0, 100)));
  next.notify(2);
  settle(ends.a_worker);
  Transfer send = value(ends.b->send(theirs.slice(0, 8)));
  EXPECT_TRUE(is_readable(ends.a_worker.fd(), 10000));
  EXPECT_EQ(take(ends.a_worker).cookie, 2U);
}

TEST_F(NextDone, OtherWaitsSleepWhileItHasSomethingToTell) {
  Transfer receive = value(ends.a->receive(ours.slice(0, 100)));
  receive.notify(1);
  settle(ends.a_worker);
  good(receive.request_cancel());
  Transfer late = value(ends.a->receive(ours.slice(0, 100)));
  timespec before{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  EXPECT_FALSE(value(late.poll_until(within(400ms))));
  timespec after{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  const auto used = std::chrono::seconds(after.tv_sec - before.tv_sec) +
                    std::chrono::nanoseconds(after.tv_nsec - before.tv_nsec);
  EXPECT_LT(used, 200ms) << "poll_until() polled instead of sleeping";
  EXPECT_EQ(take(ends.a_worker).cookie, 1U);
  good(late.cancel());
}

class NextDoneOfFew : public NextDone {
 protected:
  NextDoneOfFew() : NextDone({.max_transfers = 4}) {}
};

TEST_F(NextDoneOfFew, ATransferKeepsItsPlaceUntilItIsTaken) {
  const RemoteRegion there = remote();
  const auto put = [&] { return ends.a->put(ours.slice(0, 8), there.slice(0, 8)); };
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 4; ++i) value(put()).notify(i);
    good(ends.a_worker.wait(within(10s)));
    const auto refused = put();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::exhausted);
    for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(take(ends.a_worker).cookie, i);
  }
}

class NextDoneOfAThread : public NextDone {
 protected:
  NextDoneOfAThread() : NextDone({.progress_thread = true}) {}
};

TEST_F(NextDoneOfAThread, MakesTheWorkersDescriptorReadable) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    Transfer receive = value(ends.a->receive(ours.slice(0, 100)));
    receive.notify(i);
    receive.reset();
    const Deadline end = Deadline::after(10s);
    while (!value(ends.a_worker.arm()) && !end.passed()) {
    }
    EXPECT_FALSE(is_readable(ends.a_worker.fd(), 0));
    Transfer send = value(ends.b->send(theirs.slice(0, 8)));
    EXPECT_TRUE(is_readable(ends.a_worker.fd(), 10000));
    EXPECT_EQ(take(ends.a_worker).cookie, i);
    EXPECT_FALSE(is_readable(ends.a_worker.fd(), 0));
    good(send.wait(10s));
  }
}

/// Two threads sleep. One takes an event, and is busy with it; the next event must wake the other.
TEST_F(NextDoneOfAThread, WakesEachOfSeveralThreadsThatSleep) {
  std::atomic<int> told{0};
  std::atomic<bool> first_has_one{false};
  std::atomic<bool> over{false};
  const auto sleep_and_take = [&] {
    const Deadline end = Deadline::after(20s);
    while (told < 2 && !end.passed()) {
      if (value(ends.a_worker.arm())) {
        pollfd entry{ends.a_worker.fd(), POLLIN, 0};
        ::poll(&entry, 1, 20000);
      }
      if (!ends.a_worker.next_done()) continue;
      if (++told == 2) over = true;
      // The thread that took the first transfer is busy until the other thread took the second.
      if (!first_has_one.exchange(true)) {
        while (!over && !end.passed()) std::this_thread::sleep_for(1ms);
      }
    }
  };
  std::thread one(sleep_and_take);
  std::thread other(sleep_and_take);
  std::this_thread::sleep_for(50ms);
  for (int i = 0; i < 2; ++i) {
    Transfer receive = value(ends.a->receive(ours.slice(0, 100)));
    receive.notify(1);
    receive.reset();
    Transfer send = value(ends.b->send(theirs.slice(0, 8)));
    const Deadline end = Deadline::after(10s);
    while (told <= i && !end.passed()) std::this_thread::sleep_for(1ms);
    EXPECT_GT(told, i);
    good(send.wait(10s));
  }
  one.join();
  other.join();
}

TEST_F(NextDoneOfAThread, NotifyOfATransferThatIsOverWakesAWait) {
  Transfer receive = value(ends.a->receive(ours.slice(0, 100)));
  good(receive.cancel());
  std::atomic<bool> woken{false};
  std::thread sleeper([&] {
    const Deadline end = Deadline::after(10s);
    // Other events end wait(), too, so this repeats until next_done() reports the receive.
    while (!woken && !end.passed()) {
      good(ends.a_worker.wait(within(10s)));
      if (ends.a_worker.next_done()) woken = true;
    }
  });
  std::this_thread::sleep_for(50ms);
  receive.notify(1);
  sleeper.join();
  EXPECT_TRUE(woken);
}

TEST_F(NextDoneOfAThread, ManyThreadsTakeEachTransferOnce) {
  const RemoteRegion there = remote();
  constexpr std::uint64_t kPuts = 2000;
  std::vector<std::atomic<int>> told(kPuts);
  std::atomic<std::uint64_t> count{0};
  std::vector<std::thread> takers;
  for (int t = 0; t < 3; ++t) {
    takers.emplace_back([&] {
      const Deadline end = Deadline::after(60s);
      while (count < kPuts && !end.passed()) {
        if (const auto done = ends.a_worker.next_done()) {
          ++told.at(done->cookie);
          ++count;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::uint64_t i = 0; i < kPuts; ++i) {
    auto put = ends.a->put(ours.slice(0, 8), there.slice(0, 8));
    const Deadline end = Deadline::after(60s);
    while (!put && put.error().code == Errc::exhausted && !end.passed())
      put = ends.a->put(ours.slice(0, 8), there.slice(0, 8));
    value(std::move(put)).notify(i);
  }
  for (std::thread& taker : takers) taker.join();
  for (const auto& times : told) EXPECT_EQ(times, 1);
}

// --- waiting for several transfers

class Waits : public NextDone {};

TEST_F(Waits, WaitAnyGivesTheFirstThatIsOver) {
  std::vector<Transfer> all;
  for (std::uint64_t tag = 0; tag < 3; ++tag)
    all.push_back(value(ends.a->receive(ours.slice(0, 100), TagMatch{.tag = tag})));
  EXPECT_FALSE(value(ends.a_worker.wait_any(all, within(20ms))));
  Transfer send = value(ends.b->send(theirs.slice(0, 8), 1));
  EXPECT_EQ(value(ends.a_worker.wait_any(all, within(10s))), 1U);
  EXPECT_FALSE(all[0].done());
  EXPECT_FALSE(all[2].done());
  // A failed transfer has also ended.
  good(all[0].request_cancel());
  EXPECT_EQ(value(ends.a_worker.wait_any(all, within(10s))), 0U);
  EXPECT_FALSE(all[0].poll());
  EXPECT_FALSE(value(ends.a_worker.wait_all(all, within(20ms))));
  good(all[2].cancel());
}

TEST_F(Waits, WaitAllGivesTheErrorOfTheFirstThatFailed) {
  std::vector<Transfer> all;
  for (std::uint64_t tag = 0; tag < 3; ++tag)
    all.push_back(value(ends.a->receive(ours.slice(0, 100), TagMatch{.tag = tag})));
  good(all[1].request_cancel());
  Transfer first = value(ends.b->send(theirs.slice(0, 8), 0));
  EXPECT_FALSE(value(ends.a_worker.wait_all(all, within(20ms))));
  Transfer last = value(ends.b->send(theirs.slice(0, 8), 2));
  const auto waited = ends.a_worker.wait_all(all, within(10s));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Errc::cancelled);
  EXPECT_TRUE(value(all[0].poll()));
  EXPECT_TRUE(value(all[2].poll()));
}

TEST_F(Waits, TransfersOfAnotherWorkerAreRefused) {
  std::vector<Transfer> all;
  all.push_back(value(ends.b->receive(theirs.slice(0, 100))));
  const auto any = ends.a_worker.wait_any(all, within(0ns));
  ASSERT_FALSE(any);
  EXPECT_EQ(any.error().code, Errc::invalid_argument);
  const auto every = ends.a_worker.wait_all(all, within(0ns));
  ASSERT_FALSE(every);
  EXPECT_EQ(every.error().code, Errc::invalid_argument);
  const auto none = ends.a_worker.wait_any({}, within(0ns));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::invalid_argument);
  EXPECT_TRUE(value(ends.a_worker.wait_all({}, within(0ns))));
  good(all[0].cancel());
}

TEST_F(Waits, PollUntilLeavesTheTransferUnderWayAtItsTime) {
  Transfer receive = value(ends.a->receive(ours.slice(0, 100)));
  EXPECT_FALSE(value(receive.poll_until(within(20ms))));
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_EQ(::write(pipe[1], "x", 1), 1);
  EXPECT_FALSE(value(receive.poll_until({Deadline::after(10s), pipe[0]})));
  ::close(pipe[0]);
  ::close(pipe[1]);
  EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
  Transfer send = value(ends.b->send(theirs.slice(0, 8)));
  EXPECT_TRUE(value(receive.poll_until(within(10s))));
  EXPECT_TRUE(value(receive.poll_until(within(0ns))));
}

TEST_F(Waits, ACancelNeedsNoWait) {
  // A rendezvous message that no receive takes stays in flight until the peer has answered.
  Memory large(ends.context, MemoryType::host, 1 << 20);
  Transfer send = value(ends.a->send(large.all()));
  ends.a_worker.progress();
  good(send.request_cancel());
  EXPECT_FALSE(send.done()) << "the peer has not said yet that its side is closed";
  good(send.request_cancel());  // a second call changes nothing
  Result<bool> over = false;
  ends.drive([&] { return !(over = send.poll()) || *over; });
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::cancelled);
  EXPECT_TRUE(send.settled());
  good(send.request_cancel());
}

// --- times

class Timed : public NextDone {
 protected:
  Timed() : NextDone({.times = true}) {}
};

TEST_F(Timed, TransfersTellWhenTheyWereAskedPostedAndOver) {
  const RemoteRegion there = remote();
  const auto before = std::chrono::steady_clock::now();
  Transfer put = value(ends.a->put(ours.slice(0, 8), there.slice(0, 8)));
  ASSERT_TRUE(put.explain().times);
  good(put.wait(10s));
  const auto times = put.explain().times;
  ASSERT_TRUE(times && times->over);
  EXPECT_LE(before, times->asked);
  EXPECT_LE(times->asked, times->posted);
  EXPECT_LE(times->posted, *times->over);
  EXPECT_LE(*times->over, std::chrono::steady_clock::now());
}

TEST_F(Timed, TransfersThatWaitedForRoomWerePostedLater) {
  const RemoteRegion there = remote();
  std::vector<Transfer> all;
  for (int i = 0; i < 300; ++i)
    all.push_back(value(ends.a->put(ours.slice(0, 8), there.slice(0, 8))));
  EXPECT_FALSE(all.back().explain().times->posted) << "the last put waits for room";
  const auto asked = std::chrono::steady_clock::now();
  EXPECT_TRUE(value(ends.a_worker.wait_all(all, within(10s))));
  const auto first = all.front().explain().times;
  const auto last = all.back().explain().times;
  ASSERT_TRUE(first && last);
  EXPECT_LT(first->posted, asked);
  EXPECT_GT(last->posted, asked);
  EXPECT_GE(last->over, last->posted);
}

TEST_F(Timed, FailedTransfersHaveAnEndTime) {
  Transfer receive = value(ends.a->receive(ours.slice(0, 8)));
  EXPECT_FALSE(receive.explain().times->over);
  good(receive.request_cancel());
  EXPECT_TRUE(receive.explain().times->over);
}

TEST_F(NextDone, TellsNoTimesWhereNoneWereAskedFor) {
  const RemoteRegion there = remote();
  Transfer put = value(ends.a->put(ours.slice(0, 8), there.slice(0, 8)));
  good(put.wait(10s));
  EXPECT_FALSE(put.explain().times);
}

}  // namespace
}  // namespace hbmwire::test
