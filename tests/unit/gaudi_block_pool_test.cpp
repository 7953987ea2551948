// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory/gaudi/block_pool.hpp"

namespace hbmwire::memory::gaudi {
namespace {

constexpr std::uint64_t kPage = 32 << 10;
constexpr std::uint64_t kFirstAddress = 0x1001'0018'0000'0000;
constexpr std::uint64_t kCardPages = 24;

/// The inode of the descriptor's file; 0 if the descriptor is closed.
ino_t inode_of(int fd) {
  struct stat status {};

  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

/// A card with few, small pages, and the driver's rules: exported memory cannot be unmapped.
class SmallCard final : public BlockSource {
 public:
  Result<DriverBlock> take_block(std::uint64_t size_bytes) override {
    ++calls;
    const std::uint64_t pages = (size_bytes + kPage - 1) / kPage;
    for (std::uint64_t first = 0; first + pages <= kCardPages; ++first) {
      bool is_free = true;
      for (const auto& [begin, length] : taken)
        is_free = is_free && (begin + length <= first || first + pages <= begin);
      if (!is_free) continue;
      taken[first] = pages;
      return DriverBlock{
          .address = kFirstAddress + first * kPage, .size_bytes = size_bytes, .handle = first + 1};
    }
    return tl::make_unexpected(make_error(Errc::exhausted, Stage::allocate, "full"));
  }

  void give_block_back(const DriverBlock& block) noexcept override {
    ++calls;
    const std::uint64_t first = (block.address - kFirstAddress) / kPage;
    EXPECT_EQ(taken.erase(first), 1U);
    EXPECT_EQ(block.handle, first + 1);
    EXPECT_FALSE(is_exported(block)) << "what is exported can't be unmapped";
    exports.erase(block.address);
  }

  Result<Fd> export_block(const DriverBlock& block) override {
    Fd fd(::memfd_create("export", MFD_CLOEXEC));
    exports[block.address] = {fd.get(), inode_of(fd.get())};
    return fd;
  }

  /// Compares inodes, since the number of the descriptor may belong to another file by now.
  [[nodiscard]] bool is_exported(const DriverBlock& block) const {
    const auto found = exports.find(block.address);
    return found != exports.end() && inode_of(found->second.first) == found->second.second;
  }

  [[nodiscard]] std::uint64_t taken_pages() const {
    std::uint64_t pages = 0;
    for (const auto& [first, count] : taken) pages += count;
    return pages;
  }

  std::map<std::uint64_t, std::uint64_t> taken;            // first page to pages
  std::map<std::uint64_t, std::pair<int, ino_t>> exports;  // by address
  int calls = 0;
};

class GaudiBlockPool : public testing::Test {
 protected:
  static DeviceInfo small_device() {
    DeviceInfo device;
    device.type = MemoryType::gaudi;
    device.name = "small card";
    device.size_bytes = kCardPages * kPage;
    device.page_bytes = kPage;
    return device;
  }

  std::uint64_t allocate(std::uint64_t size_bytes) {
    const auto address = pool_.allocate(size_bytes);
    EXPECT_TRUE(address) << describe(address.error());
    return address.value_or(0);
  }

  DeviceInfo device_ = small_device();
  SmallCard card_;
  BlockPool pool_{card_, device_};
};

TEST_F(GaudiBlockPool, ManySmallAllocationsShareOneBlockAndOneDmabuf) {
  std::vector<std::uint64_t> addresses;
  std::set<const Fd*> descriptors;
  for (int i = 0; i < 8; ++i) {
    addresses.push_back(allocate(100));
    const auto range = pool_.export_range(addresses.back(), 100);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->address(), addresses.back());
    descriptors.insert(range->fd.get());
  }
  EXPECT_EQ(card_.taken_pages(), 1U);
  EXPECT_EQ(descriptors.size(), 1U);
  for (const auto address : addresses) pool_.free(address);
}

TEST_F(GaudiBlockPool, AllocationsAboveHalfAPageHaveTheirOwnBlock) {
  const auto half = allocate(kPage / 2);
  const auto more = allocate(kPage / 2 + 1);
  const auto other_half = allocate(kPage / 2);
  EXPECT_EQ(other_half, half + kPage / 2);
  EXPECT_EQ(card_.taken_pages(), 2U);
  EXPECT_EQ(pool_.find(more, 1)->size_bytes, kPage / 2 + 1);
  pool_.free(more);
  EXPECT_EQ(card_.taken_pages(), 1U) << "the block of one large allocation goes back at once";
  pool_.free(half);
  pool_.free(other_half);
}

TEST_F(GaudiBlockPool, KeepsOneEmptyBlockAndGivesTheOthersBack) {
  std::vector<std::uint64_t> addresses;
  for (int i = 0; i < 6; ++i) addresses.push_back(allocate(kPage / 2));
  EXPECT_EQ(card_.taken_pages(), 3U);
  for (const auto address : addresses) pool_.free(address);
  EXPECT_EQ(card_.taken_pages(), 1U);
  const int calls = card_.calls;
  for (int i = 0; i < 100; ++i) pool_.free(allocate(4096));
  EXPECT_EQ(card_.calls, calls) << "the driver is not asked for what is there";
}

TEST_F(GaudiBlockPool, TheEmptyBlockMakesRoomForALargeAllocation) {
  pool_.free(allocate(4096));
  EXPECT_EQ(card_.taken_pages(), 1U);
  const auto all = allocate(kCardPages * kPage);
  EXPECT_EQ(card_.taken_pages(), kCardPages);
  EXPECT_FALSE(pool_.allocate(1)) << "the card is full";
  pool_.free(all);
}

TEST_F(GaudiBlockPool, AnOpenDmabufKeepsItsBlock) {
  const auto large = allocate(kPage);
  auto range = pool_.export_range(large, 1);
  ASSERT_TRUE(range);
  pool_.free(large);
  EXPECT_FALSE(pool_.find(large, 1));
  EXPECT_EQ(card_.taken_pages(), 1U) << "the driver would refuse to unmap it";
  range->fd.reset();
  pool_.free(allocate(kPage));
  EXPECT_EQ(card_.taken_pages(), 0U);
}

TEST_F(GaudiBlockPool, TheDmabufOfAnEmptyBlockIsClosed) {
  const auto address = allocate(4096);
  const auto fd = pool_.export_range(address, 1)->fd->get();
  EXPECT_GE(::fcntl(fd, F_GETFD), 0) << "kept while something in the block is allocated";
  pool_.free(address);
  EXPECT_LT(::fcntl(fd, F_GETFD), 0);
}

TEST_F(GaudiBlockPool, RefusesRangesThatLeaveTheirAllocation) {
  const auto first = allocate(5000);
  const auto second = allocate(5000);
  EXPECT_EQ(second, first + 8192);  // 5000 bytes take two pages of 4096
  EXPECT_TRUE(pool_.export_range(first, 5000));
  EXPECT_FALSE(pool_.export_range(first, 5001)) << "a neighbour lies behind";
  EXPECT_FALSE(pool_.export_range(first + 5000, 1));
  EXPECT_FALSE(pool_.export_range(first, 0));
  EXPECT_FALSE(pool_.export_range(first - 1, 2));
  EXPECT_FALSE(pool_.export_range(first + 1, ~0ULL));
  pool_.free(first);
  pool_.free(second);
}

/// Allocates and frees in random order, and compares with a model. Ranges never overlap, are
/// aligned, and stay in their block. No generation occurs twice. At the end everything is free
/// again.
TEST(GaudiBlockPoolProperty, HandsOutDisjointRangesAndUsesFreedSpaceAgain) {
  DeviceInfo device;
  device.name = "small card";
  device.size_bytes = kCardPages * kPage;
  device.page_bytes = kPage;
  const bool held = rc::check([&] {
    SmallCard card;
    BlockPool pool(card, device);
    std::map<std::uint64_t, std::uint64_t> live;  // address to size
    std::set<std::uint64_t> generations;
    const auto steps = *rc::gen::inRange(1, 60);
    for (int step = 0; step < steps; ++step) {
      if (!live.empty() && *rc::gen::inRange(0, 3) == 0) {
        const auto victim =
            std::next(live.begin(),
                      static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, live.size())));
        pool.free(victim->first);
        RC_ASSERT(!pool.find(victim->first, 1).has_value());
        live.erase(victim);
        continue;
      }
      // Sizes around the limit for a shared block, and any size.
      const auto size = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(1, kPage / 2 + 2),
                                        rc::gen::inRange<std::uint64_t>(1, 3 * kPage));
      const auto address = pool.allocate(size);
      if (!address) {
        RC_ASSERT(address.error().code == Errc::exhausted);
        continue;
      }
      RC_ASSERT(*address % 4096 == 0U);
      // Outside of RC_ASSERT, which evaluates both sides of each expression.
      const auto after = live.lower_bound(*address);
      const bool before_next = after == live.end() || *address + size <= after->first;
      const bool behind_previous =
          after == live.begin() || std::prev(after)->first + std::prev(after)->second <= *address;
      RC_ASSERT(before_next);
      RC_ASSERT(behind_previous);
      const auto range = pool.export_range(*address, size);
      RC_ASSERT(range.has_value());
      RC_ASSERT(range->address() == *address);
      RC_ASSERT(range->offset_bytes + size <=
                card.taken.at((range->base_address - kFirstAddress) / kPage) * kPage);
      RC_ASSERT(generations.insert(range->generation).second);
      RC_ASSERT(pool.find(*address, size)->generation == range->generation);
      live.emplace(*address, size);
    }
    for (const auto& [address, size] : live) pool.free(address);
    RC_ASSERT(card.taken_pages() <= 1U);
    RC_ASSERT(pool.allocate(kCardPages * kPage).has_value());
    pool.free(kFirstAddress);  // the allocation of the whole card
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace hbmwire::memory::gaudi
