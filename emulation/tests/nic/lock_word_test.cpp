// SPDX-License-Identifier: MIT
#include "emulation/common/lock_word.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace hbmwire::emulation::nic {
namespace {

using TakenWord = LockWord::Taken;
constexpr std::uint64_t kSecond = 1'000'000'000;

struct Shared {
  LockWord lock;
  std::uint64_t count;  // guarded by the lock
  std::atomic<std::uint32_t> locked;
};

void lock(LockWord& word) {
  while (word.lock_for(kSecond) == TakenWord::no) {
  }
}

/// Zeroed memory that forked children share.
class LockWordTest : public ::testing::Test {
 protected:
  LockWordTest()
      : shared_(static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}

  ~LockWordTest() override { ::munmap(shared_, sizeof(Shared)); }

  /// A child that takes the lock and sleeps with it.
  pid_t fork_holder() {
    const pid_t child = ::fork();
    if (child == 0) {
      lock(shared_->lock);
      shared_->locked.store(1);
      for (;;) ::pause();
    }
    while (shared_->locked.load() == 0) ::usleep(1000);
    return child;
  }

  Shared* shared_;
};

void add(Shared& shared, int times) {
  for (int i = 0; i < times; ++i) {
    lock(shared.lock);
    ++shared.count;
    shared.lock.unlock();
  }
}

TEST_F(LockWordTest, ExcludesProcessesAndThreads) {
  constexpr int kTimes = 20'000;
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    add(*shared_, kTimes);
    ::_exit(0);
  }
  std::thread other([this] { add(*shared_, kTimes); });
  add(*shared_, kTimes);
  other.join();
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  EXPECT_EQ(shared_->count, 4U * kTimes);
  EXPECT_EQ(shared_->lock.holder(), 0);
}

TEST_F(LockWordTest, NamesItsHolderAndWaitsForOneThatLives) {
  const pid_t child = fork_holder();
  EXPECT_EQ(shared_->lock.holder(), child);
  EXPECT_EQ(shared_->lock.try_lock(), TakenWord::no);
  EXPECT_EQ(shared_->lock.lock_for(kSecond / 100), TakenWord::no);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(LockWordTest, IsInheritedFromAKilledProcess) {
  const pid_t child = fork_holder();
  ::kill(child, SIGKILL);
  // A zombie first: the parent has not waited for it.
  EXPECT_EQ(shared_->lock.lock_for(10 * kSecond), TakenWord::inherited);
  EXPECT_EQ(shared_->lock.holder(), ::gettid());
  shared_->lock.unlock();
  ::waitpid(child, nullptr, 0);
}

TEST_F(LockWordTest, IsInheritedFromAKilledProcessThatIsGone) {
  const pid_t child = fork_holder();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(shared_->lock.try_lock(), TakenWord::inherited);
}

TEST_F(LockWordTest, IsInheritedFromAThreadThatEnded) {
  std::thread([this] { lock(shared_->lock); }).join();
  EXPECT_EQ(shared_->lock.lock_for(10 * kSecond), TakenWord::inherited);
}

/// Thread ids are reused, but start times differ. The word has the start time above bit 32.
TEST_F(LockWordTest, IsInheritedThoughAnotherThreadHasTheHoldersId) {
  lock(shared_->lock);
  auto& word = reinterpret_cast<std::atomic<std::uint64_t>&>(shared_->lock);
  word.fetch_add(1ULL << 32U);
  EXPECT_EQ(shared_->lock.try_lock(), TakenWord::inherited);
}

TEST_F(LockWordTest, AForkedChildIsAnotherHolder) {
  lock(shared_->lock);
  shared_->lock.unlock();
  const pid_t child = fork_holder();
  EXPECT_EQ(shared_->lock.holder(), child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace hbmwire::emulation::nic
