// SPDX-License-Identifier: MIT
#include "base/alarm.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>
#include <iterator>
#include <latch>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using Clock = Alarm::Clock;

std::ptrdiff_t threads() {
  // ThreadSanitizer starts a thread together with the first one.
  [[maybe_unused]] static const bool kStarted = (std::thread([] {}).join(), true);
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

/// Waits for `condition`, at most ten seconds.
template <class Condition>
bool soon(Condition condition) {
  const auto deadline = Clock::now() + 10s;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(Alarm, RingsOnceAndNotBeforeItsTime) {
  std::atomic<int> rung{0};
  const auto when = Clock::now() + 20ms;
  std::atomic<bool> early{false};
  const auto alarm = Alarm::set(when, [&] {
    early = Clock::now() < when;
    ++rung;
  });
  ASSERT_TRUE(alarm) << describe(alarm.error());
  ASSERT_TRUE(soon([&] { return rung.load() != 0; }));
  EXPECT_FALSE(early);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(rung, 1);
}

TEST(Alarm, RingsInAThreadThatTakesNoSignals) {
  const auto blocks_sigterm = [] {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, SIGTERM) == 1;
  };
  std::promise<bool> blocked;
  const auto alarm = Alarm::set(Clock::now(), [&] { blocked.set_value(blocks_sigterm()); });
  ASSERT_TRUE(alarm) << describe(alarm.error());
  EXPECT_TRUE(blocked.get_future().get());
  EXPECT_FALSE(blocks_sigterm()) << "the thread that set the alarm keeps its signal mask";
}

TEST(Alarm, RingsInTheOrderOfTimesWhateverTheOrderOfCalls) {
  std::mutex mutex;
  std::vector<int> order;
  std::vector<Alarm> alarms;
  const auto now = Clock::now();
  for (const int place : {3, 1, 0, 2}) {
    auto alarm = Alarm::set(now + 200ms + place * 1ms, [&, place] {
      const std::scoped_lock lock(mutex);
      order.push_back(place);
    });
    ASSERT_TRUE(alarm);
    alarms.push_back(std::move(*alarm));
  }
  ASSERT_TRUE(soon([&] {
    const std::scoped_lock lock(mutex);
    return order.size() == 4;
  }));
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TEST(Alarm, HasAThreadOnlyWhileSomethingIsDue) {
  const auto before = threads();
  {
    auto far = Alarm::set(Clock::now() + 1h, [] {});
    auto farther = Alarm::set(Clock::now() + 2h, [] {});
    ASSERT_TRUE(far && farther);
    EXPECT_EQ(threads(), before + 1);
  }
  EXPECT_EQ(threads(), before) << "joined with the last alarm";
  std::atomic<bool> rung{false};
  const auto near = Alarm::set(Clock::now(), [&] { rung = true; });
  ASSERT_TRUE(soon([&] { return rung.load(); }));
  EXPECT_TRUE(soon([&] { return threads() == before; })) << "nothing is due any more";
  // The thread starts again.
  rung = false;
  const auto again = Alarm::set(Clock::now(), [&] { rung = true; });
  EXPECT_TRUE(soon([&] { return rung.load(); }));
}

TEST(Alarm, ADestroyedAlarmDoesNotRing) {
  std::atomic<int> rung{0};
  auto alarm = Alarm::set(Clock::now() + 200ms, [&] { ++rung; });
  ASSERT_TRUE(alarm);
  Alarm moved = std::move(*alarm);
  moved.reset();
  moved.reset();
  std::atomic<bool> later{false};
  const auto witness = Alarm::set(Clock::now() + 210ms, [&] { later = true; });
  ASSERT_TRUE(soon([&] { return later.load(); }));
  EXPECT_EQ(rung, 0);
}

TEST(Alarm, ResetWaitsWhileItRings) {
  std::latch ringing(1);
  std::latch go_on(1);
  std::atomic<bool> ended{false};
  auto alarm = Alarm::set(Clock::now(), [&] {
    ringing.count_down();
    go_on.wait();
    ended = true;
  });
  ASSERT_TRUE(alarm);
  ringing.wait();
  std::thread other([&] { go_on.count_down(); });
  alarm->reset();
  EXPECT_TRUE(ended);
  other.join();
}

TEST(Alarm, ManyThreadsSetAndResetAlarms) {
  const auto before = threads();
  std::atomic<int> rung{0};
  std::atomic<int> gone{0};
  {
    std::vector<std::jthread> setters;
    for (unsigned seed = 0; seed < 4; ++seed) {
      setters.emplace_back([&, seed] {
        std::mt19937 random(seed);
        for (int i = 0; i < 500; ++i) {
          // Set to true after the alarm was reset: an alarm that rings even later counts in `gone`.
          auto destroyed = std::make_unique<std::atomic<bool>>(false);
          {
            const auto alarm = Alarm::set(Clock::now() + std::chrono::microseconds(random() % 200),
                                          [&, ring = destroyed.get()] {
                                            if (*ring) ++gone;
                                            ++rung;
                                          });
            ASSERT_TRUE(alarm);
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
          }
          *destroyed = true;
        }
      });
    }
  }
  EXPECT_EQ(gone, 0) << "rang after its reset";
  EXPECT_GT(rung, 0);
  EXPECT_EQ(threads(), before);
}

/// Runs `body` in a child by fork(2); returns 0 if it returned true.
int in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Alarm, AChildSetsItsOwnAlarmsAndLeavesThoseOfItsParent) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers let no child of a threaded process start threads, or lock it up";
#endif
  std::atomic<int> rung{0};
  std::optional<Alarm> alarm;
  {
    auto set = Alarm::set(Clock::now() + 1h, [&] { ++rung; });
    ASSERT_TRUE(set);
    alarm = std::move(*set);
  }
  EXPECT_EQ(in_child([&] {
              // reset() must neither wait for the alarms' thread, which the child lacks, nor take
              // the lock.
              alarm.reset();
              std::atomic<bool> mine{false};
              const auto own = Alarm::set(Clock::now(), [&] { mine = true; });
              return own.has_value() && soon([&] { return mine.load(); });
            }),
            0);
  EXPECT_EQ(rung, 0);
}

}  // namespace
}  // namespace hbmwire
