// SPDX-License-Identifier: MIT
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_key.hpp"

#include "ends.hpp"
#include "tests/library/emulated_hooks.hpp"

// Sleeping until completions arrive, and the library's own thread.
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Connected {
  explicit Connected(WorkerOptions options = {})
      : ends({.peer_timeout = 2s}, options),
        memory(ends.context, MemoryType::host, 65536),
        key(value(MemoryKey::pack(memory.region()))),
        at_b(value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))))) {}

  Ends ends;
  Memory memory;
  MemoryKey key;
  RemoteRegion at_b;
};

bool readable(int fd, std::chrono::milliseconds time) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(time.count())) > 0;
}

/// Makes progress until the worker has nothing to do.
void settle(Worker& worker) {
  for (int i = 0; !value(worker.arm()); ++i) ASSERT_LT(i, 1000) << "the worker never comes to rest";
}

TEST(WorkerFd, IsQuietUntilSomethingHappensAndAfterwards) {
  Connected side;
  settle(side.ends.a_worker);
  EXPECT_FALSE(readable(side.ends.a_worker.fd(), 20ms));
  Transfer put = value(side.ends.a->put(side.memory.slice(0, 64), side.at_b.slice(0, 64)));
  EXPECT_TRUE(readable(side.ends.a_worker.fd(), 5s));
  settle(side.ends.a_worker);
  EXPECT_TRUE(put.done());
  EXPECT_FALSE(readable(side.ends.a_worker.fd(), 20ms)) << "a sleeper would spin";
}

TEST(WorkerFd, LosesNoWakeUp) {
  Connected side;
  for (int i = 0; i < 2000; ++i) {
    Transfer put = value(side.ends.a->put(side.memory.slice(0, 64), side.at_b.slice(0, 64)));
    while (!put.done()) {
      if (!value(side.ends.a_worker.arm())) continue;
      ASSERT_TRUE(readable(side.ends.a_worker.fd(), 5s)) << "after " << i;
    }
  }
}

TEST(WorkerFd, APeersEndWakesASleeper) {
  Connected side;
  settle(side.ends.a_worker);
  side.ends.b.reset();
  ASSERT_TRUE(readable(side.ends.a_worker.fd(), 5s));
  settle(side.ends.a_worker);
  EXPECT_EQ(side.ends.a->phase(), EndpointPhase::closed);
}

TEST(WorkerWait, ReturnsWhenSomethingHasHappened) {
  Connected side;
  settle(side.ends.a_worker);
  const auto begun = Clock::now();
  Transfer put = value(side.ends.a->put(side.memory.slice(0, 64), side.at_b.slice(0, 64)));
  good(side.ends.a_worker.wait(within(5s)));
  EXPECT_LT(Clock::now() - begun, 2s);
  EXPECT_TRUE(put.done());
}

TEST(WorkerWait, EndsByItsDeadlineAndByItsDescriptor) {
  Connected side;
  settle(side.ends.a_worker);
  const auto late = side.ends.a_worker.wait(within(30ms));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out);
  const Fd cancel{::eventfd(1, EFD_CLOEXEC)};
  const auto cancelled = side.ends.a_worker.wait({Deadline::after(20s), cancel.get()});
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Errc::cancelled);
}

/// Constant activity of others on the same worker does not keep a wait from ending.
TEST(WorkerWait, EndsByItsDeadlineThoughTheWorkerIsNeverIdle) {
  Connected side;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) static_cast<void>(side.ends.a->remote("nothing", within(1ms)));
  });
  // `b` answers questions of the other thread all the time.
  const auto begun = Clock::now();
  const auto never = side.ends.b->remote("nothing", within(100ms));
  EXPECT_FALSE(never);
  EXPECT_LT(Clock::now() - begun, 3s);
  stop = true;
  other.join();
}

class Threaded : public ::testing::Test {
 protected:
  Connected side_{{.max_transfers = 4096, .progress_thread = true}};
};

TEST_F(Threaded, ProgressNeedsNoCalls) {
  Transfer put = value(side_.ends.a->put(side_.memory.slice(0, 64), side_.at_b.slice(0, 64)));
  const Deadline deadline = Deadline::after(10s);
  while (!put.done() && !deadline.passed()) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(put.done());
  good(side_.ends.listener.advertise("target", side_.memory.region()));
  static_cast<void>(value(side_.ends.a->remote("target", within(10s))));
}

TEST(ThreadedWorker, TheThreadWakesAsSoonAsThereIsAnEndpoint) {
  for (int i = 0; i < 5; ++i) {
    Connected side({.max_transfers = 16, .progress_thread = true});
    const auto begun = Clock::now();
    Transfer put = value(side.ends.a->put(side.memory.slice(0, 64), side.at_b.slice(0, 64)));
    while (!put.done() && Clock::now() - begun < 5s) std::this_thread::sleep_for(1ms);
    EXPECT_LT(Clock::now() - begun, 500ms);
  }
}

TEST_F(Threaded, ManyThreadsShareOneWorker) {
  constexpr std::uint64_t kThreads = 6;
  good(side_.ends.listener.advertise("target", side_.memory.region()));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        Transfer put = value(
            side_.ends.a->put(side_.memory.slice(t * 512, 256), side_.at_b.slice(t * 512, 256)));
        Transfer get = value(side_.ends.a->get(side_.memory.slice(t * 512 + 256, 256),
                                               side_.at_b.slice(t * 512, 256)));
        good(put.wait(10s));
        good(get.wait(10s));
        if (i % 100 == 0) static_cast<void>(value(side_.ends.a->remote("target", within(10s))));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Threaded, EveryFunctionMayBeCalledByEveryThread) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Endpoint& a = *side_.ends.a;
      Endpoint& b = *side_.ends.b;
      const Slice own = side_.memory.slice(4096 + t * 512, 64);
      const RemoteSlice there = side_.at_b.slice(t * 512, 64);
      const std::vector<TransferPart> parts{{own, there}};
      for (int i = 0; i < 50; ++i) {
        Transfer receive = value(b.receive(side_.memory.slice(8192 + t * 512, 64), TagMatch{t}));
        Transfer send = value(a.send(own, t, {.level = CompletionLevel::arrived}));
        good(send.wait(20s));
        good(receive.wait(20s));
        Transfer plain = value(b.receive(side_.memory.slice(12288 + t * 512, 64)));
        good(value(a.send(own)).wait(20s));
        good(plain.wait(20s));
        Transfer told = value(b.receive_immediate());
        good(value(a.put(own, there, {.immediate = 1})).wait(20s));
        good(told.wait(20s));
        good(value(a.fetch_add(side_.at_b.slice(16384 + t * 8, 8), 1)).wait(20s));
        PreparedTransfer list = value(a.prepare_put(parts));
        good(value(list.post()).wait(20s));
        good(value(value(a.prepare_get(parts)).post()).wait(20s));
        good(value(a.flush()).wait(20s));
        good(value(side_.ends.a_worker.flush(own)).wait(20s));
        EXPECT_FALSE(side_.ends.listener.try_accept());
        const std::string name = std::to_string(t);
        good(side_.ends.listener.advertise(name, side_.memory.region()));
        static_cast<void>(value(a.remote(name, within(20s))));
        good(side_.ends.listener.withdraw(name));
        EXPECT_EQ(a.phase(), EndpointPhase::ready);
        EXPECT_FALSE(a.error());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AContext, IsForAllThreadsFromTheFirstCallOn) {
  for (int round = 0; round < 20; ++round) {
    const Context context = value(Context::create());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const auto nics = value(context.open_nics());
        ASSERT_EQ(nics.size(), 1U);
        const Memory memory(context, MemoryType::host, 4096);
        const auto again = value(context.open_nics());
        EXPECT_EQ(&again.front().info(), &nics.front().info());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

/// Several threads sleep at once. Whichever thread takes an event, each learns of its own transfer.
TEST_F(Threaded, NoSleeperMissesEventsThatAnotherHandled) {
  const auto begun = Clock::now();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1 + t));
        good(side_.ends.a->put(side_.memory.slice(0, 64), side_.at_b.slice(0, 64))
                 .value()
                 .wait(10s));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A missed sleeper would sleep until the peers are checked, a quarter of a second later.
  EXPECT_LT(Clock::now() - begun, 2s);
}

TEST_F(Threaded, TheThreadSleepsWhenThereIsNothingToDo) {
  std::this_thread::sleep_for(50ms);
  const auto cpu = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const auto before = cpu();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(cpu() - before, 100ms);
}

TEST_F(Threaded, TheThreadTakesNoSignalsOfTheProcess) {
  unsigned found = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string line;
    bool ours = false;
    while (std::getline(status, line)) {
      if (line.starts_with("Name:")) ours = line.ends_with("hbmwire-worker");
      if (!ours || !line.starts_with("SigBlk:")) continue;
      ++found;
      EXPECT_NE(std::stoull(line.substr(7), nullptr, 16) & (1ULL << (SIGTERM - 1)), 0U) << line;
    }
  }
  EXPECT_EQ(found, 2U) << "one for each of the two workers";
}

TEST_F(Threaded, AnyThreadMayCloseAndCancel) {
  Transfer put = value(side_.ends.a->put(side_.memory.slice(0, 64), side_.at_b.slice(0, 64)));
  std::thread other([&] { good(put.cancel()); });
  other.join();
  std::thread closing([&] { static_cast<void>(side_.ends.a->close(within(10s))); });
  closing.join();
  EXPECT_EQ(side_.ends.a->phase(), EndpointPhase::closed);
}

/// One worker with both ends of a connection, which several threads use.
class SharedWorker : public ::testing::Test {
 protected:
  /// Runs `work(t)` in a thread for each t below `count`.
  template <class Work>
  static void in_threads(std::uint64_t count, const Work& work) {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < count; ++t) threads.emplace_back([&work, t] { work(t); });
    for (std::thread& thread : threads) thread.join();
  }

  Context context_ = value(Context::create());
  Worker worker_ = value(Worker::create(context_, {}, WorkerThreads::any));
  Listener listener_ = value(Listener::create(worker_, {.address = "127.0.0.1"}));
  Endpoint a_ = value(
      Endpoint::connect(worker_, "127.0.0.1:" + std::to_string(listener_.port()), within(10s)));
  Endpoint b_ = value(listener_.accept(within(10s)));
  Memory memory_{context_, MemoryType::host, 64 << 10};
};

TEST_F(SharedWorker, EveryFunctionMayBeCalledByEveryThread) {
  good(listener_.advertise("target", memory_.region()));
  in_threads(4, [&](std::uint64_t t) {
    const RemoteRegion target = value(a_.remote("target", within(20s)));
    const Slice own = memory_.slice(4096 + t * 512, 64);
    for (int i = 0; i < 100; ++i) {
      Transfer receive = value(b_.receive(memory_.slice(8192 + t * 512, 64), TagMatch{t}));
      good(value(a_.send(own, t, {.level = CompletionLevel::arrived})).wait(20s));
      good(receive.wait(20s));
      good(value(a_.put(own, target.slice(t * 512, 64))).wait(20s));
      good(value(a_.get(own, target.slice(t * 512, 64))).wait(20s));
      EXPECT_EQ(a_.phase(), EndpointPhase::ready);
      EXPECT_FALSE(listener_.try_accept());
    }
  });
}

TEST_F(SharedWorker, NoSleeperMissesEventsThatAnotherHandled) {
  const RemoteRegion target = [&] {
    good(listener_.advertise("target", memory_.region()));
    return value(a_.remote("target", within(10s)));
  }();
  const auto begun = Clock::now();
  in_threads(4, [&](std::uint64_t t) {
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + t));
      good(value(a_.put(memory_.slice(0, 64), target.slice(0, 64))).wait(10s));
    }
  });
  // A missed sleeper would sleep until the peers are checked, a quarter of a second later.
  EXPECT_LT(Clock::now() - begun, 2s);
}

TEST_F(SharedWorker, WakesAThreadThatSleepsOnItsDescriptorThoughAnotherOneMadeTheProgress) {
  Transfer receive = value(b_.receive(memory_.slice(0, 64)));
  receive.notify(7);
  std::atomic<bool> told{false};
  std::thread sleeper([&] {
    const Deadline end = Deadline::after(10s);
    while (!told && !end.passed()) {
      if (const auto done = worker_.next_done()) told = done->cookie == 7;
      if (told || !value(worker_.arm())) continue;
      pollfd readable{worker_.fd(), POLLIN, 0};
      ::poll(&readable, 1, end.poll_timeout_ms());
    }
  });
  std::this_thread::sleep_for(50ms);
  good(value(a_.send(memory_.slice(64, 64), {.level = CompletionLevel::arrived})).wait(10s));
  sleeper.join();
  EXPECT_TRUE(told);
}

TEST_F(SharedWorker, SeveralThreadsThatWaitSleep) {
  const auto cpu = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const auto before = cpu();
  in_threads(3, [&](std::uint64_t t) {
    Transfer receive = value(b_.receive(memory_.slice(t * 64, 64), TagMatch{t}));
    EXPECT_FALSE(value(receive.poll_until(within(500ms))));
  });
  EXPECT_LT(cpu() - before, 200ms);
}

TEST(ThreadedWorker, AThreadedWorkerComesAndGoes) {
  const Context context = value(Context::create());
  for (int i = 0; i < 50; ++i)
    static_cast<void>(
        value(Worker::create(context, {.max_transfers = 16, .progress_thread = true})));
}

TEST(ThreadedWorker, AThreadedWorkerGoesWithTransfersUnderWay) {
  std::vector<Transfer> puts;
  {
    Connected side({.max_transfers = 4096, .progress_thread = true});
    for (int i = 0; i < 200; ++i)
      puts.push_back(value(side.ends.a->put(side.memory.slice(0, 64), side.at_b.slice(0, 64))));
  }
  for (Transfer& transfer : puts) EXPECT_TRUE(transfer.done());
}

// Drivers lock a queue's memory, and a large queue may exceed the rest of the limit. The first call
// fails here: that call makes the queue if an endpoint needs another one, and something else if
// not.
TEST(AWorker, TakesASmallerCompletionQueueWhereALargeOneCanNotBeHad) {
  const Context context = value(Context::create());
  const Worker worker = value(Worker::create(context));
  std::vector<EndpointInvitation> held;
  int made = 0;
  for (int i = 0; i < 6; ++i) {
    fail_nth_call("nic", 0, ENOMEM);
    auto invitation = EndpointInvitation::create(worker);
    fail_nth_call("nic", -1, 0);
    made += invitation ? 1 : 0;
    held.push_back(invitation ? std::move(*invitation) : value(EndpointInvitation::create(worker)));
  }
  EXPECT_GE(made, 1);
}

}  // namespace
}  // namespace hbmwire::test
