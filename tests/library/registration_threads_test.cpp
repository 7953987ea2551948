// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "counted_allocations.hpp"
#include "emulated_hooks.hpp"
#include "registration_cache_fixture.hpp"

// The cache with several threads and processes.
namespace hbmwire::test {
namespace {

using RegistrationThreads = CacheFixture;

TEST_F(RegistrationThreads, AHitAllocatesNothing) {
  const auto cache = make_cache();
  const Allocation memory = allocate(MemoryType::host, kPage);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cache.get(memory.address(), kPage, kWrite));
  CountedAllocations allocations;
  bool all = true;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto lease = cache.get(memory.address(), kPage, kWrite);
    all = all && lease;
  }
  const int counted = allocations.stop();
  EXPECT_TRUE(all);
  EXPECT_EQ(counted, 0);
  EXPECT_EQ(cache.statistics().misses, 1U);
}

TEST_F(RegistrationThreads, AnotherThreadGivesALeaseBack) {
  const auto cache = make_cache();
  std::optional<Allocation> memory = allocate(MemoryType::host, kPage);
  std::vector<RegistrationLease> leases;
  for (int i = 0; i < 10; ++i) leases.push_back(take(cache.get(memory->address(), kPage, kWrite)));
  EXPECT_EQ(cache.statistics().in_use, 1U);
  std::thread([&] { leases.resize(3); }).join();
  EXPECT_EQ(cache.statistics().in_use, 1U);
  memory.reset();
  EXPECT_EQ(cache.statistics().regions, 1U) << "three leases are left";
  std::thread([&] { leases.clear(); }).join();
  EXPECT_EQ(cache.statistics().regions, 0U);
}

TEST_F(RegistrationThreads, ALeaseOutlivesTheThreadThatGotIt) {
  const auto cache = make_cache();
  const Allocation memory = allocate(MemoryType::host, kPage);
  for (int i = 0; i < 20; ++i) {
    RegistrationLease lease;
    std::thread([&] { lease = take(cache.get(memory.address(), kPage, kWrite)); }).join();
    EXPECT_EQ(cache.statistics().in_use, 1U);
    std::thread([&] { EXPECT_TRUE(cache.get(memory.address(), kPage, kWrite)); }).join();
    lease.reset();
    EXPECT_EQ(cache.statistics().in_use, 0U);
  }
  EXPECT_EQ(cache.statistics().misses, 1U);
  cache.drop_unused();
  EXPECT_EQ(cache.statistics().regions, 0U);
}

TEST_F(RegistrationThreads, CachesOfOneThreadAreKeptApart) {
  const Allocation memory = allocate(MemoryType::host, kPage);
  for (int i = 0; i < 10; ++i) {
    const auto one = make_cache();
    const auto two = make_cache();
    auto of_one = take(one.get(memory.address(), kPage, kWrite));
    auto of_two = take(two.get(memory.address(), kPage, kWrite));
    EXPECT_NE(&of_one.region().allocation(), &of_two.region().allocation());
    of_one.reset();
    EXPECT_EQ(one.statistics().in_use, 0U);
    EXPECT_EQ(two.statistics().in_use, 1U);
  }
}

/// All operations of the cache at once. Each registration found must be the requested one, and
/// nothing is left at the end.
TEST_F(RegistrationThreads, AllOperationsAgree) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 3000;
  constexpr std::size_t kPieces = 24;
  // Room for 16 ranges with two NICs.
  const auto cache = make_cache({.whole = RegistrationOptions::Whole::off, .max_regions = 2 * 16});
  std::array<std::mutex, kPieces> locks;
  std::array<std::optional<Allocation>, kPieces> pieces;
  for (auto& piece : pieces) piece = allocate(MemoryType::host, 2 * kPage);
  std::mutex shelf_lock;
  std::vector<RegistrationLease> shelf;  // any thread may release these
  std::atomic<int> failures{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t i = random() % kPieces;
      const std::scoped_lock lock(locks[i]);
      if (random() % 16 == 0) {
        pieces[i].reset();
        pieces[i] = allocate(MemoryType::host, 2 * kPage);
      }
      if (random() % 256 == 0) cache.drop_unused();
      const std::uint64_t at = pieces[i]->address() + random() % kPage;
      auto lease = cache.get(at, kPage, kWrite);
      if (!lease || lease->region().address() > at ||
          lease->region().address() + lease->region().size_bytes() < at + kPage ||
          lease->region().remote().remote_key == 0) {
        ++failures;
        continue;
      }
      const std::scoped_lock shelving(shelf_lock);
      if (random() % 4 == 0) shelf.push_back(std::move(*lease));
      if (shelf.size() > 8) shelf.erase(shelf.begin() + static_cast<long>(random() % shelf.size()));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i + 1);
  }
  EXPECT_EQ(failures, 0);
  shelf.clear();
  EXPECT_EQ(cache.statistics().in_use, 0U);
  for (auto& piece : pieces) piece.reset();
  const auto end = cache.statistics();
  EXPECT_EQ(end.regions, 0U);
  EXPECT_EQ(end.bytes, 0U);
  EXPECT_EQ(end.memory_regions, 0U);
  EXPECT_GT(end.hits, 0U);
  EXPECT_GT(end.evictions, 0U);
}

TEST_F(RegistrationThreads, AChildByForkFindsNothingOfItsParents) {
  const auto cache = make_cache();
  const Allocation memory = allocate(MemoryType::host, kPage);
  auto lease = take(cache.get(memory.address(), kPage, kWrite));
  std::atomic<bool> stop{false};
  // When fork(2) is called, one of these threads may hold any lock.
  std::jthread other([&] {
    while (!stop) {
      EXPECT_TRUE(cache.get(memory.address(), kPage, kWrite));
      cache.drop_unused();
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto refused = cache.get(memory.address(), kPage, kWrite);
      lease.reset();
      cache.drop_unused();
      const bool is_right = !refused && refused.error().hint == Hint::forked_nic;
      ::_exit(is_right && cache.statistics().regions == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
  EXPECT_TRUE(cache.get(memory.address(), kPage, kWrite));
  EXPECT_EQ(cache.statistics().regions, 1U) << "the child deregistered nothing";
}

}  // namespace
}  // namespace hbmwire::test
