// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "cuda_application.hpp"
#include "emulated_hooks.hpp"
#include "gaudi_vendor_calls.hpp"
#include "registration_cache_fixture.hpp"

// The registrations that the cache finds and forgets, and the references that it must not keep.
namespace hbmwire::test {
namespace {

using RegistrationCacheTest = CacheFixture;

TEST_F(RegistrationCacheTest, FindsRegisteredMemory) {
  const auto cache = make_cache();
  const Allocation memory = allocate(MemoryType::host, 4 * kPage);
  const void* first = nullptr;
  {
    const auto lease = take(cache.get(memory.address(), 4 * kPage, kWrite));
    EXPECT_EQ(lease.address(), memory.address());
    EXPECT_EQ(lease.size_bytes(), 4 * kPage);
    EXPECT_EQ(lease.region().access(), kWrite);
    EXPECT_EQ(lease.region().nics().size(), 2U);
    first = &lease.region().allocation();
  }
  for (int i = 0; i < 3; ++i) {
    const auto whole = take(cache.get(memory.address(), 4 * kPage, kWrite));
    EXPECT_EQ(&whole.region().allocation(), first);
    const auto part = take(cache.get(memory.address() + 10, kPage, kWrite));
    EXPECT_EQ(&part.region().allocation(), first);
    EXPECT_EQ(part.slice().offset_bytes, 10U);
    EXPECT_EQ(part.slice().length_bytes, kPage);
  }
  const auto seen = cache.statistics();
  EXPECT_EQ(seen.misses, 1U);
  EXPECT_EQ(seen.hits, 6U);
  EXPECT_EQ(seen.regions, 1U);
  EXPECT_EQ(seen.memory_regions, 2U);
  EXPECT_EQ(seen.bytes, 4 * kPage);
  EXPECT_EQ(seen.in_use, 0U);
}

TEST_F(RegistrationCacheTest, GivesNoMoreAccessThanAskedFor) {
  const auto cache = make_cache();
  const Allocation memory = allocate(MemoryType::host, kPage);
  const auto write = take(cache.get(memory.address(), kPage, kWrite));
  const auto read = take(cache.get(memory.address(), kPage, Access::remote_read));
  EXPECT_EQ(write.region().access(), kWrite);
  EXPECT_EQ(read.region().access(), Access::remote_read);
  EXPECT_NE(read.region().remote().remote_key, write.region().remote().remote_key);
  EXPECT_EQ(cache.statistics().misses, 2U);
}

TEST_F(RegistrationCacheTest, RefusesInvalidRanges) {
  const auto cache = make_cache();
  const Allocation memory = allocate(MemoryType::host, kPage);
  ASSERT_TRUE(cache.get(memory.address(), kPage, kWrite));
  for (const auto& [address, length] :
       {std::pair<std::uint64_t, std::uint64_t>{memory.address(), 0},
        {memory.address(), ~std::uint64_t{0}},
        {~std::uint64_t{0}, 1}}) {
    const auto lease = cache.get(address, length, kWrite);
    ASSERT_FALSE(lease);
    EXPECT_EQ(lease.error().code, Errc::invalid_argument) << describe(lease.error());
  }
  const auto beyond = cache.get(memory.address() + 1, kPage, kWrite);
  ASSERT_FALSE(beyond) << "the range leaves its allocation";
  EXPECT_EQ(cache.statistics().regions, 1U);
}

TEST_F(RegistrationCacheTest, RefusesUndefinedAccessFlags) {
  const auto cache = make_cache();
  const Allocation memory = allocate(MemoryType::host, kPage);
  const Fd file = make_dmabuf(kPage);
  const auto beyond = static_cast<Access>(static_cast<unsigned>(kAllAccess) + 1);
  for (const Access access : {beyond, beyond | kWrite, static_cast<Access>(0xff)}) {
    for (const auto& lease :
         {cache.get(memory.address(), kPage, access),
          cache.get(DmabufMemory{.fd = file.get(), .length_bytes = kPage}, access)}) {
      ASSERT_FALSE(lease);
      EXPECT_EQ(lease.error().code, Errc::invalid_argument) << describe(lease.error());
      EXPECT_EQ(lease.error().stage, Stage::register_memory);
    }
  }
  EXPECT_EQ(cache.statistics().regions, 0U);
  EXPECT_TRUE(cache.get(memory.address(), kPage, kAllAccess));
}

// A dropped registration that is still in use must not be found with undefined flags either.
TEST_F(RegistrationCacheTest, RefusesUndefinedAccessFlagsAfterADrop) {
  const auto cache = make_cache();
  const Allocation memory = allocate(MemoryType::host, kPage);
  for (unsigned access = 1; access <= static_cast<unsigned>(kAllAccess); ++access) {
    const auto lease = cache.get(memory.address(), kPage, static_cast<Access>(access));
    if (!lease) continue;  // not valid for a registration
    ASSERT_TRUE(cache.get(memory.address(), kPage, static_cast<Access>(access)));
    cache.drop(memory.address(), kPage);
    for (unsigned beyond = static_cast<unsigned>(kAllAccess) + 1; beyond < 256; ++beyond)
      EXPECT_FALSE(cache.get(memory.address(), kPage, static_cast<Access>(beyond)))
          << access << ", " << beyond;
  }
  EXPECT_EQ(cache.statistics().regions, 0U);
}

TEST_F(RegistrationCacheTest, NeedsANic) {
  const auto cache = RegistrationCache::create(context_, {});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, Errc::invalid_argument);
}

TEST_F(RegistrationCacheTest, RangesThatOverlapBecomeOne) {
  const auto cache = make_cache({.whole = RegistrationOptions::Whole::off});
  const Allocation memory = allocate(MemoryType::host, 8 * kPage);
  ASSERT_TRUE(cache.get(memory.address(), 4 * kPage, kWrite));
  ASSERT_TRUE(cache.get(memory.address() + 2 * kPage, 4 * kPage, kWrite));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(cache.get(memory.address(), 4 * kPage, kWrite));
    ASSERT_TRUE(cache.get(memory.address() + 2 * kPage, 4 * kPage, kWrite));
  }
  EXPECT_EQ(cache.statistics().misses, 2U);
  EXPECT_EQ(cache.statistics().regions, 1U);
  EXPECT_EQ(cache.statistics().bytes, 6 * kPage);
}

/// Mooncake and others paid for one registration per tensor where one for the whole allocation
/// suffices.
TEST_F(RegistrationCacheTest, AllOfAnAllocationIsRegisteredForItsParts) {
  const Allocation memory = allocate(MemoryType::gaudi, 64 * kPage);
  const auto parts = [&](RegistrationOptions options) {
    const auto cache = make_cache(options);
    for (std::uint64_t at = 0; at < 64 * kPage; at += 4 * kPage)
      EXPECT_TRUE(cache.get(memory.address() + at, kPage, kWrite));
    return cache.statistics().misses;
  };
  using Whole = RegistrationOptions::Whole;
  EXPECT_EQ(parts({.whole = Whole::on}), 1U);
  EXPECT_EQ(parts({.whole = Whole::automatic}), 1U);
  EXPECT_EQ(parts({.whole = Whole::automatic, .whole_ratio = 0}), 16U);
  EXPECT_EQ(parts({.whole = Whole::off}), 16U);
}

TEST_F(RegistrationCacheTest, EvictsTheLeastRecentlyUsed) {
  const auto cache = make_cache({.max_regions = 3 * 2});  // three ranges with two NICs
  std::vector<Allocation> memory;
  for (int i = 0; i < 4; ++i) memory.push_back(allocate(MemoryType::host, kPage));
  const auto use = [&](std::size_t i) {
    EXPECT_TRUE(cache.get(memory[i].address(), kPage, kWrite));
    return cache.statistics().misses;
  };
  use(0);
  use(1);
  EXPECT_EQ(use(2), 3U);
  EXPECT_EQ(use(0), 3U);
  EXPECT_EQ(use(3), 4U) << "there is room for three";
  EXPECT_EQ(use(0), 4U);
  EXPECT_EQ(use(2), 4U);
  EXPECT_EQ(use(1), 5U) << "it had gone";
  EXPECT_EQ(use(3), 6U) << "it was the oldest then";
  EXPECT_EQ(cache.statistics().evictions, 3U);
  EXPECT_EQ(cache.statistics().memory_regions, 6U);
}

// Hits set a mark, and have no order among themselves.
TEST_F(RegistrationCacheTest, EvictsTheOldestWhereAllWereHit) {
  const auto cache = make_cache({.max_regions = 3 * 2});  // three ranges with two NICs
  std::vector<Allocation> memory;
  for (int i = 0; i < 6; ++i) memory.push_back(allocate(MemoryType::host, kPage));
  const auto is_hit = [&](std::size_t i) {
    const std::uint64_t misses = cache.statistics().misses;
    EXPECT_TRUE(cache.get(memory[i].address(), kPage, kWrite));
    return cache.statistics().misses == misses;
  };
  for (const std::size_t i : {0U, 1U, 2U}) EXPECT_FALSE(is_hit(i));
  for (const std::size_t i : {2U, 1U, 0U}) EXPECT_TRUE(is_hit(i));
  EXPECT_FALSE(is_hit(3)) << "in place of 0";
  for (const std::size_t i : {1U, 3U}) EXPECT_TRUE(is_hit(i));
  EXPECT_FALSE(is_hit(4)) << "in place of 2, which alone has not been used since";
  for (const std::size_t i : {1U, 3U, 4U}) EXPECT_TRUE(is_hit(i));
  EXPECT_EQ(cache.statistics().evictions, 2U);
  {
    // In use: it is skipped, although it is the oldest and its mark is cleared.
    const auto oldest = take(cache.get(memory[1].address(), kPage, kWrite));
    for (const std::size_t i : {5U, 0U, 2U, 5U, 0U, 2U}) EXPECT_FALSE(is_hit(i));
    EXPECT_TRUE(is_hit(1));
  }
  EXPECT_EQ(cache.statistics().evictions, 8U);
  EXPECT_EQ(cache.statistics().not_kept, 0U);
}

TEST_F(RegistrationCacheTest, KeepsWithinItsBudgetOfBytes) {
  const auto cache = make_cache({.max_bytes = 8 * kPage});
  const Allocation small = allocate(MemoryType::host, 6 * kPage);
  const Allocation other = allocate(MemoryType::host, 4 * kPage);
  const Allocation large = allocate(MemoryType::host, 9 * kPage);
  ASSERT_TRUE(cache.get(small.address(), 6 * kPage, kWrite));
  ASSERT_TRUE(cache.get(other.address(), 4 * kPage, kWrite));
  EXPECT_EQ(cache.statistics().bytes, 4 * kPage);
  {
    const auto lease = take(cache.get(large.address(), 9 * kPage, kWrite));
    EXPECT_EQ(cache.statistics().not_kept, 1U) << "it does not fit, and evicts no other";
  }
  EXPECT_EQ(cache.statistics().bytes, 4 * kPage);
  EXPECT_EQ(cache.statistics().evictions, 1U);
}

TEST_F(RegistrationCacheTest, KeepsWithinItsBudgetOfDescriptors) {
  const auto cache = make_cache({.max_dmabufs = 2});
  std::vector<Fd> files;
  for (int i = 0; i < 8; ++i) files.push_back(make_dmabuf(kPage));
  int descriptors = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    ASSERT_TRUE(cache.get(DmabufMemory{.fd = files[i].get(), .length_bytes = kPage}, kWrite));
    if (i == 3) descriptors = open_descriptors();  // two dma-bufs are evicted by then
  }
  EXPECT_EQ(cache.statistics().dmabufs, 2U);
  EXPECT_EQ(cache.statistics().evictions, 6U);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_F(RegistrationCacheTest, RegionsInUseAreNotEvicted) {
  const auto cache = make_cache({.max_regions = 2});  // one range with two NICs
  const Allocation one = allocate(MemoryType::host, kPage);
  const Allocation two = allocate(MemoryType::host, kPage);
  const auto used = take(cache.get(one.address(), kPage, kWrite));
  {
    const auto extra = take(cache.get(two.address(), kPage, kWrite));
    EXPECT_EQ(cache.statistics().memory_regions, 4U);
    EXPECT_EQ(cache.statistics().in_use, 2U);
  }
  EXPECT_EQ(cache.statistics().memory_regions, 2U);
  EXPECT_EQ(cache.statistics().not_kept, 1U);
  EXPECT_EQ(cache.statistics().evictions, 0U);
  ASSERT_TRUE(cache.get(one.address(), kPage, kWrite));
  EXPECT_EQ(cache.statistics().hits, 1U);
}

TEST_F(RegistrationCacheTest, ForgetsMemoryWithItsLastAllocation) {
  for (const MemoryType type : {MemoryType::host, MemoryType::gaudi, MemoryType::cuda}) {
    SCOPED_TRACE(to_string(type));
    const auto cache = make_cache();
    std::optional<Allocation> memory = allocate(type, 2 * kPage);
    const std::uint64_t address = memory->address();
    ASSERT_TRUE(cache.get(address, kPage, kWrite));
    EXPECT_EQ(cache.statistics().regions, 1U);
    const Allocation copy = *memory;
    memory.reset();
    EXPECT_EQ(cache.statistics().regions, 1U);
    memory = copy;
    const_cast<Allocation&>(copy) = allocate(type, kPage);  // NOLINT: the last reference
    memory.reset();
    EXPECT_EQ(cache.statistics().regions, 0U);
    EXPECT_EQ(cache.statistics().invalidations, 1U);
  }
}

/// If memory is freed during a registration's use, it may belong to another owner while a NIC still
/// writes to it.
TEST_F(RegistrationCacheTest, MemoryGoesWithItsLastLease) {
  const auto cache = make_cache();
  std::optional<Allocation> memory = allocate(MemoryType::host, kPage);
  const std::uint64_t address = memory->address();
  std::optional lease = take(cache.get(address, kPage, kWrite));
  memory.reset();
  EXPECT_EQ(cache.statistics().regions, 1U);
  std::memset(std::bit_cast<void*>(address), 1, kPage);  // the memory still exists
  lease.reset();
  EXPECT_EQ(cache.statistics().regions, 0U);
}

/// The driver refuses to unmap exported memory, so nothing may be kept after the last use.
TEST_F(RegistrationCacheTest, AdoptedMemoryIsTheOwnersRightAfterItsUse) {
  const auto cache = make_cache();
  ApplicationCard application;
  ASSERT_NE(application.map(1 << 20), 0U);
  std::optional adopted = take(context_.adopt(application.memory()));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cache.get(adopted->address(), kPage, kWrite));
  EXPECT_EQ(cache.statistics().regions, 0U);
  EXPECT_EQ(cache.statistics().not_kept, 2U);
  EXPECT_EQ(application.unmap_and_free(), 0);
  adopted.reset();
}

/// The driver reuses addresses, and distinguishes allocations by their buffer id.
TEST_F(RegistrationCacheTest, CudaMemoryOfTheApplicationIsKnownByItsBufferId) {
  const auto cache = make_cache();
  CudaApplication application(0);
  std::uint64_t address = application.allocate(1 << 20);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cache.get(address, kPage, kWrite));
  EXPECT_EQ(cache.statistics().misses, 1U);
  EXPECT_EQ(cache.statistics().hits, 2U);
  std::set<std::uint64_t> known;
  while (known.insert(address).second) {
    ASSERT_LT(known.size(), 200U) << "no address comes a second time";
    ASSERT_TRUE(cache.get(address, kPage, kWrite));
    application.free(address);
    address = application.allocate(1 << 20);
  }
  const auto before = cache.statistics();
  ASSERT_TRUE(cache.get(address, kPage, kWrite));
  const auto after = cache.statistics();
  EXPECT_EQ(after.misses, before.misses + 1);
  EXPECT_EQ(after.invalidations, before.invalidations + 1);
  EXPECT_EQ(after.regions, before.regions);
}

/// A thread's memory of an address remains after our memory is freed there. It leads to the same
/// reference, which may then belong to the application's memory: that must be checked each time.
TEST_F(RegistrationCacheTest, CudaMemoryAtTheAddressOfOursIsLookedUpAnew) {
  const auto cache = make_cache();
  // The driver takes small allocations from one block, always from the first free place.
  CudaApplication application(0);
  ASSERT_NE(application.allocate(kPage), 0U);
  std::optional<Allocation> ours = allocate(MemoryType::cuda, kPage);
  const std::uint64_t address = ours->address();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cache.get(address, kPage, kWrite));
  ours.reset();
  ASSERT_EQ(application.allocate(kPage), address);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cache.get(address, kPage, kWrite));
  application.free(address);
  ASSERT_EQ(application.allocate(kPage), address);
  const auto before = cache.statistics();
  ASSERT_TRUE(cache.get(address, kPage, kWrite));
  EXPECT_EQ(cache.statistics().misses, before.misses + 1) << "a stale registration was found";
}

/// If the cache used the number of a descriptor, it would find another buffer after the number was
/// reused.
TEST_F(RegistrationCacheTest, DmabufsAreIdentifiedByTheirBuffer) {
  const auto cache = make_cache();
  Fd file = make_dmabuf(4 * kPage);
  const int number = file.get();
  const auto get = [&](int fd, std::uint64_t offset) {
    return take(cache.get(DmabufMemory{.fd = fd, .offset_bytes = offset, .length_bytes = kPage},
                          kWrite))
        .address();
  };
  const std::uint64_t address = get(number, 0);
  const Fd other(::fcntl(number, F_DUPFD_CLOEXEC, 100));
  EXPECT_EQ(get(other.get(), 0), address);
  EXPECT_EQ(cache.statistics().misses, 1U);
  EXPECT_NE(get(number, kPage), address) << "another part of it";
  file.reset();
  const Fd another = make_dmabuf(4 * kPage);
  ASSERT_EQ(another.get(), number) << "the test needs the same number";
  EXPECT_NE(get(number, 0), address);
  EXPECT_EQ(get(other.get(), 0), address);
  EXPECT_EQ(cache.statistics().misses, 3U);
}

TEST_F(RegistrationCacheTest, DropsRequestedRanges) {
  const auto cache = make_cache({.whole = RegistrationOptions::Whole::off});
  const Allocation memory = allocate(MemoryType::host, 4 * kPage);
  ASSERT_TRUE(cache.get(memory.address(), kPage, kWrite));
  std::optional lease = take(cache.get(memory.address() + 2 * kPage, kPage, kWrite));
  cache.drop(memory.address() + 4 * kPage, kPage);
  EXPECT_EQ(cache.statistics().regions, 2U);
  cache.drop(memory.address(), 4 * kPage);
  EXPECT_EQ(cache.statistics().regions, 1U) << "that with a lease";
  ASSERT_TRUE(cache.get(memory.address() + 2 * kPage, kPage, kWrite));
  EXPECT_EQ(cache.statistics().misses, 3U);
  lease.reset();
  EXPECT_EQ(cache.statistics().regions, 1U);
  cache.drop_unused();
  EXPECT_EQ(cache.statistics().regions, 0U);
}

TEST_F(RegistrationCacheTest, ALeaseThatOutlivesItsCacheIsLeftAlone) {
  std::string logged;
  set_log_sink([&](LogLevel /*level*/, std::string_view line) { logged += line; });
  const Allocation memory = allocate(MemoryType::host, kPage);
  std::optional<RegistrationLease> lease;
  {
    const auto cache = make_cache();
    lease = take(cache.get(memory.address(), kPage, kWrite));
  }
  EXPECT_NE(logged.find("1 regions are in use still"), std::string::npos) << logged;
  EXPECT_EQ(lease->region().address(), memory.address());
  lease.reset();
  set_log_sink(nullptr);
}

TEST_F(RegistrationCacheTest, ManyRegionsAreFoundAgain) {
  const auto cache = make_cache({.whole = RegistrationOptions::Whole::off});
  constexpr std::uint64_t kRegions = 3000;
  const Allocation memory = allocate(MemoryType::host, kRegions * kPage);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < kRegions; ++i)
      ASSERT_TRUE(cache.get(memory.address() + i * kPage, kPage, kWrite));
  }
  EXPECT_EQ(cache.statistics().misses, kRegions);
  EXPECT_EQ(cache.statistics().hits, 2 * kRegions);
}

/// One region and many addresses in it, like the blocks of a key-value cache.
TEST_F(RegistrationCacheTest, PartsAreFoundByTheirAddresses) {
  const auto cache = make_cache({.whole = RegistrationOptions::Whole::on});
  constexpr std::uint64_t kParts = 5000;
  const Allocation memory = allocate(MemoryType::gaudi, kParts * kPage);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < kParts; ++i) {
      const auto lease = take(cache.get(memory.address() + i * kPage, kPage, kWrite));
      ASSERT_EQ(lease.slice().offset_bytes, i * kPage);
    }
  }
  EXPECT_EQ(cache.statistics().misses, 1U);
  EXPECT_EQ(cache.statistics().hits, 3 * kParts - 1);
}

/// The n-th call fails, for n = 0, 1, ... until no call is left to fail.
TEST_F(RegistrationCacheTest, EachFailureLeavesNothingBehind) {
  const auto card = take(context_.open(MemoryType::gaudi));
  const Fd file = make_dmabuf(kPage);
  const auto use = [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const Allocation memory, card->allocate(4 * kPage));
    HBMWIRE_TRY_ASSIGN(const auto cache, RegistrationCache::create(context_, nics_));
    HBMWIRE_TRY_ASSIGN(const auto one, cache.get(memory.address(), kPage, kWrite));
    HBMWIRE_TRY_ASSIGN(const auto two, cache.get(memory.address() + kPage, kPage, kWrite));
    HBMWIRE_TRY(cache.get(DmabufMemory{.fd = file.get(), .length_bytes = kPage}, kWrite));
    return {};
  };
  must(use());
  const std::string objects = live_objects();
  const int descriptors = open_descriptors();
  for (const char* library : {"nic", "gaudi"}) {
    SCOPED_TRACE(library);
    int failures = 0;
    for (long n = 0;; ++n) {
      ASSERT_LT(n, 100) << "the sweep does not end";
      fail_nth_call(library, n, EIO);
      const auto result = use();
      const long counted = fail_nth_call(library, -1, 0);
      EXPECT_EQ(live_objects(), objects) << "after call " << n << " failed";
      EXPECT_EQ(open_descriptors(), descriptors) << "after call " << n << " failed";
      if (counted <= n) {
        EXPECT_TRUE(result) << describe(result.error());
        break;
      }
      failures += result ? 0 : 1;
    }
    EXPECT_GT(failures, 0);
  }
}

/// If a NIC has no room for another region, the cache releases unused ones to make room.
TEST_F(RegistrationCacheTest, ReleasesUnusedRegionsWhenTheNicIsFull) {
  const auto cache = make_cache({.whole = RegistrationOptions::Whole::off});
  const Allocation memory = allocate(MemoryType::host, 4 * kPage);
  ASSERT_TRUE(cache.get(memory.address(), kPage, kWrite));
  fail_nth_call("nic", 0, ENOMEM);
  const auto lease = cache.get(memory.address() + 2 * kPage, kPage, kWrite);
  fail_nth_call("nic", -1, 0);
  ASSERT_TRUE(lease) << describe(lease.error());
  EXPECT_EQ(cache.statistics().regions, 1U);
}

}  // namespace
}  // namespace hbmwire::test
