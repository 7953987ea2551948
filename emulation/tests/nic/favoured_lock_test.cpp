// SPDX-License-Identifier: MIT
#include "emulation/nic/state/favoured_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

/// The lock between threads of one process. Other processes are tested by
/// emulation/tests/survival/express_test.cpp.
namespace hbmwire::emulation::nic {
namespace {

constexpr unsigned kOften = 1000;  // more than it takes to become the favourite
using Taken = FavouredLock::Taken;

class FavouredLockTest : public ::testing::Test {
 protected:
  struct Fabric {
    ThreadMarks::Table marks[2];
    std::atomic<std::uint32_t> marks_end;
    std::atomic<std::uint64_t> next_id;
    std::byte before_all_locks;
    FavouredLock lock;
    FavouredLock other;
    std::uint64_t guarded;
  };

  void SetUp() override {
    if (!ThreadMarks::are_possible()) GTEST_SKIP() << "membarrier(2) has no global command here";
    ThreadMarks::find(fabric_->marks, &fabric_->before_all_locks);
    ASSERT_TRUE(ThreadMarks::attach(0, fabric_->marks_end, fabric_->next_id));
  }

  void TearDown() override { ThreadMarks::detach(); }

  /// Takes and releases the lock many times.
  static void take_often(FavouredLock& lock, unsigned times = kOften) {
    for (unsigned i = 0; i < times; ++i) ASSERT_TRUE(FavouredHold(lock, Place::responder).held());
  }

  /// Each test uses new threads, because a thread keeps its mark until it ends.
  template <typename Body>
  static void in_a_thread(Body body) {
    std::thread(body).join();
  }

  /// Whether this thread can enter the lock as its favourite. Leaves it again.
  static bool enters_as_favourite(FavouredLock& lock) {
    auto* const entered = lock.enter(Place::responder);
    if (entered != nullptr) FavouredLock::leave(*entered);
    return entered != nullptr;
  }

  std::unique_ptr<Fabric> fabric_ = std::make_unique<Fabric>();
  FavouredLock& lock_ = fabric_->lock;
};

TEST_F(FavouredLockTest, FavoursAThreadThatTakesItRepeatedly) {
  in_a_thread([&] {
    EXPECT_FALSE(enters_as_favourite(lock_));
    take_often(lock_, 10);
    EXPECT_FALSE(enters_as_favourite(lock_));
    take_often(lock_);
    EXPECT_TRUE(enters_as_favourite(lock_));
    EXPECT_FALSE(enters_as_favourite(fabric_->other));
  });
}

TEST_F(FavouredLockTest, FavoursNoneOfTwoThatAlternate) {
  std::atomic<unsigned> turn{0};
  const auto take_turns = [&](unsigned mine) {
    for (unsigned i = 0; i < kOften; ++i) {
      while (turn.load() % 2 != mine) std::this_thread::yield();
      take_often(lock_, 1);
      turn.fetch_add(1);
    }
    EXPECT_FALSE(enters_as_favourite(lock_));
  };
  std::jthread one(take_turns, 0U);
  std::jthread two(take_turns, 1U);
}

TEST_F(FavouredLockTest, KeepsItsFavouriteAfterAPassingThread) {
  in_a_thread([&] {
    take_often(lock_);
    in_a_thread([&] {
      const PassingHold hold(lock_, Place::responder);
      EXPECT_TRUE(hold.held());
      EXPECT_FALSE(enters_as_favourite(lock_));
    });
    EXPECT_TRUE(enters_as_favourite(lock_));
  });
}

TEST_F(FavouredLockTest, APassingThreadGetsNoFavourIfThereWasNone) {
  in_a_thread([&] {
    take_often(lock_, 10);
    in_a_thread([&] { EXPECT_TRUE(PassingHold(lock_, Place::responder).held()); });
    EXPECT_FALSE(enters_as_favourite(lock_));
  });
}

TEST_F(FavouredLockTest, IsNotTakenByAPassingThreadWhileItsFavouriteIsInside) {
  in_a_thread([&] {
    take_often(lock_);
    {
      const FavouredHold hold(lock_, Place::responder);
      in_a_thread([&] { EXPECT_FALSE(PassingHold(lock_, Place::responder).held()); });
    }
    EXPECT_FALSE(enters_as_favourite(lock_)) << "the passing thread has removed the favour";
    take_often(lock_);
    EXPECT_TRUE(enters_as_favourite(lock_));
  });
}

TEST_F(FavouredLockTest, FavoursAThreadThatWaitedForAPassingOne) {
  in_a_thread([&] {
    take_often(lock_);
    const std::uint64_t token = lock_.favourite();
    // As if the lock's word had let it through after unlock_for().
    ASSERT_EQ(lock_.lock(Place::responder), Taken::yes);
    EXPECT_EQ(lock_.favourite(), 0U) << "the lock's word is what holds it";
    lock_.unlock();
    EXPECT_EQ(lock_.favourite(), token);
  });
}

TEST_F(FavouredLockTest, IsHeldByOneAtATimeDespitePassingThreads) {
  std::atomic<bool> over{false};
  std::jthread often([&] {
    for (unsigned i = 0; i < 200 * kOften; ++i) {
      const FavouredHold hold(lock_, Place::responder);
      ASSERT_TRUE(hold.held());
      ++fabric_->guarded;
    }
    over = true;
  });
  std::uint64_t seldom = 0;
  std::jthread passing([&] {
    while (!over) {
      const PassingHold hold(lock_, Place::responder);
      if (!hold.held()) continue;
      ++fabric_->guarded;
      ++seldom;
    }
  });
  often.join();
  passing.join();
  EXPECT_EQ(fabric_->guarded, 200 * kOften + seldom);
}

TEST_F(FavouredLockTest, CannotBeEnteredAgainByItsHolder) {
  in_a_thread([&] {
    take_often(lock_);
    const FavouredHold hold(lock_, Place::responder);
    ASSERT_TRUE(hold.held());
    EXPECT_EQ(lock_.enter(Place::responder), nullptr);
  });
}

TEST_F(FavouredLockTest, IsNotTakenByAnotherWhileItsFavouriteIsInside) {
  in_a_thread([&] {
    take_often(lock_);
    {
      const FavouredHold hold(lock_, Place::responder);
      ASSERT_TRUE(hold.held());
      in_a_thread([&] {
        EXPECT_EQ(lock_.try_lock(Place::responder), Taken::no);
        EXPECT_TRUE(lock_.may_be_taken());
      });
    }
    in_a_thread([&] {
      EXPECT_EQ(lock_.try_lock(Place::responder), Taken::yes);
      lock_.unlock();
    });
    EXPECT_FALSE(enters_as_favourite(lock_));
    take_often(lock_);
    EXPECT_TRUE(enters_as_favourite(lock_));
  });
}

TEST_F(FavouredLockTest, WaitsForItsFavouriteToComeOut) {
  in_a_thread([&] {
    take_often(lock_);
    std::atomic<bool> out{false};
    std::thread other;
    {
      const FavouredHold hold(lock_, Place::responder);
      other = std::thread([&] {
        EXPECT_EQ(lock_.lock(Place::responder), Taken::yes);
        EXPECT_TRUE(out.load());
        lock_.unlock();
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      out.store(true);
    }
    other.join();
  });
}

/// As a favourite that was killed between enter() and leave().
TEST_F(FavouredLockTest, IsInheritedFromAFavouriteThatEndedInside) {
  in_a_thread([&] {
    take_often(lock_);
    ASSERT_NE(lock_.enter(Place::responder), nullptr);
  });
  in_a_thread([&] {
    EXPECT_EQ(lock_.lock(Place::responder), Taken::inherited);
    lock_.unlock();
    EXPECT_EQ(lock_.lock(Place::responder), Taken::yes);
    lock_.unlock();
  });
}

TEST_F(FavouredLockTest, ExcludesThreadsThatWantItAtOnce) {
  constexpr unsigned kThreads = 4;
  constexpr unsigned kRounds = 40;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (unsigned round = 0; round < kRounds; ++round) {
        for (unsigned j = 0; j < kOften; ++j) {
          const FavouredHold hold(lock_, Place::responder);
          ASSERT_TRUE(hold.held());
          ++fabric_->guarded;
        }
        std::this_thread::yield();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(fabric_->guarded, std::uint64_t{kThreads} * kRounds * kOften);
}

TEST_F(FavouredLockTest, ServesAsASendersMutex) {
  SenderMutex mutex;
  in_a_thread([&] {
    for (unsigned i = 0; i < kOften; ++i) {
      mutex.lock();
      mutex.unlock();
    }
    EXPECT_TRUE(mutex.favoured().favours(OwnMark::token()));
    mutex.lock();
    in_a_thread([&] { EXPECT_FALSE(mutex.try_lock()); });
    mutex.unlock();
    in_a_thread([&] {
      ASSERT_TRUE(mutex.try_lock());
      mutex.unlock();
    });
  });
}

}  // namespace
}  // namespace hbmwire::emulation::nic
