// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/memory_domain.hpp"

#include "open_memory.hpp"

namespace hbmwire {
namespace {

using Owner = MemoryOptions::Owner;

/// Tests that must pass with either owner of the card.
class GaudiMemory : public testing::TestWithParam<Owner> {
 protected:
  static std::shared_ptr<MemoryDomain> open() {
    auto domain = test::open_memory(MemoryType::gaudi, {.device = {}, .owner = GetParam()});
    EXPECT_TRUE(domain) << describe(domain.error());
    return *domain;
  }
};

TEST_P(GaudiMemory, TellsItsDevice) {
  const auto card = open();
  EXPECT_EQ(card->device().type, MemoryType::gaudi);
  EXPECT_EQ(card->device().page_bytes, 768ULL << 20);
  EXPECT_EQ(card->device().pci_address.size(), 12U);
  EXPECT_EQ(card->device().driven_by, GetParam() == Owner::synapse ? "SynapseAI" : "hl-thunk");
}

TEST_P(GaudiMemory, ExportsOneDmabufPerAllocationAtOffsetZeroOfItsBase) {
  const auto card = open();
  const auto memory = card->allocate(10000);
  ASSERT_TRUE(memory) << describe(memory.error());
  EXPECT_EQ(memory->address() % 4096, 0U);
  const auto whole = card->export_dmabuf(memory->address(), 10000);
  ASSERT_TRUE(whole) << describe(whole.error());
  const auto part = card->export_dmabuf(memory->address() + 5000, 100);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->fd, whole->fd);
  EXPECT_EQ(part->offset_bytes, whole->offset_bytes + 5000);
  EXPECT_EQ(part->address(), memory->address() + 5000);
  EXPECT_EQ(part->generation, whole->generation);

  struct stat status {};

  ASSERT_EQ(::fstat(whole->fd->get(), &status), 0);
  EXPECT_GE(static_cast<std::uint64_t>(status.st_size), whole->offset_bytes + 10000);
  EXPECT_EQ(status.st_size % 4096, 0);
}

/// SynapseAI has one card in a process, which all contexts share.
TEST(GaudiMemoryOfTwoContexts, IsCopiedWhenTheContextThatAcquiredTheCardHasGone) {
  auto first = test::open_memory(MemoryType::gaudi, {.device = {}, .owner = Owner::synapse});
  ASSERT_TRUE(first) << describe(first.error());
  const auto second = test::open_memory(MemoryType::gaudi, {.device = {}, .owner = Owner::synapse});
  ASSERT_TRUE(second) << describe(second.error());
  const auto memory = (*second)->allocate(4096);
  ASSERT_TRUE(memory) << describe(memory.error());
  std::vector<std::byte> bytes(4096, std::byte{7});
  const Wait wait(std::chrono::seconds(10));
  ASSERT_TRUE((*second)->copy_in(memory->address(), bytes, wait));
  (*first).reset();
  std::vector<std::byte> back(4096);
  const auto copied = (*second)->copy_out(memory->address(), back, wait);
  EXPECT_TRUE(copied) << describe(copied.error());
  EXPECT_EQ(back, bytes);
  EXPECT_TRUE((*second)->export_dmabuf(memory->address(), 4096));
}

TEST_P(GaudiMemory, CannotBeMappedByTheCpu) {
  const auto card = open();
  const auto memory = card->allocate(4096);
  const auto range = card->export_dmabuf(memory->address(), 4096);
  ASSERT_TRUE(range);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, range->fd->get(), 0), MAP_FAILED);
}

TEST_P(GaudiMemory, RefusesRangesOutsideAnAllocation) {
  const auto card = open();
  const auto memory = card->allocate(4096);
  EXPECT_FALSE(card->export_dmabuf(memory->address(), 4097));
  EXPECT_FALSE(card->export_dmabuf(memory->address() + 4097, 1));
  EXPECT_FALSE(card->export_dmabuf(memory->address() + 1, ~0ULL));
  EXPECT_FALSE(card->export_dmabuf(0, 1));
  EXPECT_FALSE(card->export_dmabuf(memory->address(), 0));
}

TEST_P(GaudiMemory, GivesEachAllocationItsOwnGeneration) {
  const auto card = open();
  std::uint64_t address = 0;
  std::uint64_t generation = 0;
  {
    const auto memory = card->allocate(4096);
    address = memory->address();
    generation = card->export_dmabuf(address, 1)->generation;
  }
  const auto again = card->allocate(4096);
  ASSERT_EQ(again->address(), address) << "the test wants the same address twice";
  EXPECT_NE(card->export_dmabuf(address, 1)->generation, generation);
}

TEST_P(GaudiMemory, SaysThatItIsTooLarge) {
  const auto card = open();
  const auto memory = card->allocate(1ULL << 40);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Errc::exhausted);
  EXPECT_EQ(memory.error().hint, Hint::device_memory_exhausted);
}

TEST_P(GaudiMemory, IsFreedOnlyAfterTheLastRegion) {
  const auto card = open();
  auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  std::vector<Region> regions;
  {
    const auto memory = card->allocate(1 << 20);
    auto region = nic->register_memory(*memory, Access::remote_write);
    ASSERT_TRUE(region) << describe(region.error());
    EXPECT_EQ(region->path(), Path::zero_copy);
    EXPECT_GE(region->dmabuf_fd(), 0);
    EXPECT_EQ(region->remote().address, memory->address());
    regions.push_back(std::move(*region));
  }
  EXPECT_EQ(regions.front().size_bytes(), 1U << 20);
  regions.clear();  // the driver would refuse a wrong order, which would be logged
}

TEST_P(GaudiMemory, SecondOwnerIsRefusedWithTheReason) {
  const auto first = open();
  const std::string name = first->device().pci_address;
  const auto second =
      test::open_memory(MemoryType::gaudi, {.device = name, .owner = Owner::hl_thunk});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
  EXPECT_EQ(second.error().hint, Hint::gaudi_busy);
}

INSTANTIATE_TEST_SUITE_P(BothOwners, GaudiMemory, testing::Values(Owner::synapse, Owner::hl_thunk),
                         [](const auto& test) {
                           return test.param == Owner::synapse ? "Synapse" : "HlThunk";
                         });

TEST(GaudiOwner, AutomaticTakesSynapse) {
  const auto card = test::open_memory(MemoryType::gaudi);
  ASSERT_TRUE(card) << describe(card.error());
  EXPECT_EQ((*card)->device().driven_by, "SynapseAI");
  EXPECT_EQ((*card)->copy_engine(), "SynapseAI DMA");
}

TEST(GaudiOwner, ABorrowedCardIsNotReleased) {
  const auto first = test::open_memory(MemoryType::gaudi, {.device = {}, .owner = Owner::synapse});
  ASSERT_TRUE(first);
  {
    const auto borrowed =
        test::open_memory(MemoryType::gaudi, {.device = {}, .owner = Owner::synapse});
    ASSERT_TRUE(borrowed) << describe(borrowed.error());
    EXPECT_EQ((*borrowed)->device().pci_address, (*first)->device().pci_address);
  }
  EXPECT_TRUE((*first)->allocate(4096));
}

TEST(GaudiOwner, SynapseTakesNoSecondCardInOneProcess) {
  const auto first = test::open_memory(MemoryType::gaudi, {.device = "0", .owner = Owner::synapse});
  ASSERT_TRUE(first) << describe(first.error());
  const auto second =
      test::open_memory(MemoryType::gaudi, {.device = "1", .owner = Owner::synapse});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().hint, Hint::synapse_one_card) << describe(second.error());
  const auto by_thunk =
      test::open_memory(MemoryType::gaudi, {.device = "1", .owner = Owner::hl_thunk});
  EXPECT_TRUE(by_thunk) << describe(by_thunk.error());
}

TEST(GaudiCard, IsFoundByIndexAndByAddress) {
  const auto by_index =
      test::open_memory(MemoryType::gaudi, {.device = "1", .owner = Owner::hl_thunk});
  ASSERT_TRUE(by_index) << describe(by_index.error());
  const std::string address = (*by_index)->device().pci_address;
  const auto busy =
      test::open_memory(MemoryType::gaudi, {.device = address, .owner = Owner::hl_thunk});
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Errc::busy);
}

TEST(GaudiCard, UnknownNamesAreNamed) {
  for (const char* name : {"17", "no-card", "0000:ff:00.0"}) {
    for (const Owner owner : {Owner::hl_thunk, Owner::synapse}) {
      const auto card = test::open_memory(MemoryType::gaudi, {.device = name, .owner = owner});
      ASSERT_FALSE(card) << name;
      EXPECT_NE(describe(card.error()).find(name), std::string::npos) << describe(card.error());
    }
  }
}

}  // namespace
}  // namespace hbmwire
