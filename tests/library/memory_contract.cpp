// SPDX-License-Identifier: MIT
#include "memory_contract.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"

namespace hbmwire::test {

namespace {

constexpr std::uint64_t kMany = ~std::uint64_t{0};

/// Whether the domain knows the range as memory that it made. Host memory answers for all addresses
/// of the host, and reports generation 0 for memory that it did not make.
bool is_ours(const std::optional<AddressInfo>& info) { return info && info->generation != 0; }

bool is_ours(MemoryDomain& domain, std::uint64_t address, std::uint64_t length) {
  return is_ours(domain.find(address, length));
}

struct Told {
  std::uint64_t address;
  std::uint64_t size_bytes;
  bool operator==(const Told&) const = default;
};

struct Observer final : MemoryObserver {
  void memory_gone(std::uint64_t address, std::uint64_t size_bytes,
                   const std::shared_ptr<const void>& memory) noexcept override {
    told.push_back({address, size_bytes});
    if (keeps) kept = memory;
  }

  std::vector<Told> told;
  bool keeps = false;
  std::shared_ptr<const void> kept;
};

}  // namespace

TEST_P(MemoryContract, TellsItsDevice) {
  const auto memory = make(1);
  const DeviceInfo& device = memory.domain().device();
  EXPECT_EQ(device.type, GetParam().type);
  EXPECT_FALSE(device.name.empty());
  EXPECT_LT(device.name.size(), sizeof Error::subject) << "errors would cut it off";
  EXPECT_GT(device.page_bytes, 0U);
  EXPECT_EQ(memory.domain().copy_engine(), GetParam().copy_engine);
  const MemoryProbe& probe = context_.memory().at(static_cast<std::size_t>(GetParam().type));
  EXPECT_EQ(probe.type, GetParam().type);
  EXPECT_FALSE(probe.missing) << describe(*probe.missing);
}

TEST_P(MemoryContract, OpensADeviceOnce) {
  const auto again = context_.open(GetParam().type, GetParam().options);
  if (!GetParam().allocates) {
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Errc::not_supported);
    return;
  }
  ASSERT_TRUE(again) << describe(again.error());
  EXPECT_EQ(*again, domain_);
}

TEST_P(MemoryContract, RefusesSizesThatCanNotBe) {
  if (!GetParam().allocates) {
    EXPECT_EQ(make(1).domain().allocate(4096).error().code, Errc::not_supported);
    return;
  }
  EXPECT_EQ(domain_->allocate(0).error().code, Errc::invalid_argument);
  for (const std::uint64_t size : {kMany, kMany - 4095, kMany / 2 + 1, kMany / 2, kMany / 4}) {
    const auto memory = domain_->allocate(size);
    ASSERT_FALSE(memory) << size;
    EXPECT_EQ(memory.error().code, Errc::exhausted) << describe(memory.error());
    EXPECT_EQ(memory.error().stage, Stage::allocate);
  }
}

TEST_P(MemoryContract, AlignsToPages) {
  for (const std::uint64_t size : {1U, 100U, 4095U, 4096U, 4097U, 1U << 20U}) {
    const auto memory = make(size);
    EXPECT_EQ(memory.size_bytes(), size);
    if (GetParam().allocates) {
      EXPECT_EQ(memory.address() % 4096, 0U) << size;
    }
  }
}

TEST_P(MemoryContract, KeepsAllocationsApart) {
  constexpr std::array<std::size_t, 6> kSizes{1, 4095, 4096, 4097, 100'001, 3};
  std::vector<Allocation> all;
  for (unsigned i = 0; i < kSizes.size(); ++i) {
    all.push_back(make(kSizes.at(i), i));
    write(all.back(), 0, pattern(kSizes.at(i), i));
  }
  for (unsigned i = 0; i < all.size(); ++i) {
    EXPECT_EQ(read(all[i], 0, kSizes.at(i)), pattern(kSizes.at(i), i)) << "allocation " << i;
    for (unsigned j = 0; j < i; ++j) {
      EXPECT_TRUE(all[i].address() + kSizes.at(i) <= all[j].address() ||
                  all[j].address() + kSizes.at(j) <= all[i].address());
    }
  }
}

TEST_P(MemoryContract, SaysThatItIsExhaustedAndRecovers) {
  if (!GetParam().allocates) return;  // a domain that only imports cannot allocate everything
  const std::uint64_t all = domain_->device().size_bytes;
  // A sixteenth of a device. Host memory tells no size, and 4 TiB exceed any machine soon.
  const std::uint64_t step = all != 0 ? all / 16 : std::uint64_t{1} << 42U;
  std::vector<Allocation> held;
  std::optional<Error> refusal;
  while (!refusal) {
    ASSERT_LT(held.size(), 1000U);
    auto memory = domain_->allocate(step);
    if (memory) {
      held.push_back(std::move(*memory));
    } else {
      refusal = memory.error();
    }
  }
  EXPECT_EQ(refusal->code, Errc::exhausted) << describe(*refusal);
  EXPECT_NE(refusal->hint, Hint::none) << describe(*refusal);
  held.clear();
  const auto memory = domain_->allocate(4096);
  EXPECT_TRUE(memory) << describe(memory.error());
}

TEST_P(MemoryContract, FindsRangesInAnAllocation) {
  constexpr std::uint64_t kSize = 10'000;
  const auto memory = make(kSize);
  const std::uint64_t base = memory.address();
  for (const auto& [offset, length] :
       {std::pair<std::uint64_t, std::uint64_t>{0, kSize}, {0, 1}, {5000, 5000}, {kSize - 1, 1}}) {
    const auto info = memory.domain().find(base + offset, length);
    ASSERT_TRUE(is_ours(info)) << offset;
    EXPECT_EQ(info->base_address, base);
    EXPECT_EQ(info->size_bytes, kSize);
    EXPECT_EQ(info->device->type, GetParam().type);
    EXPECT_EQ(info->path, GetParam().exports ? Path::zero_copy : Path::host);
    EXPECT_FALSE(info->refusal) << describe(*info->refusal);
    EXPECT_EQ(info->lifetime, GetParam().lifetime);
    EXPECT_FALSE(info->otherwise) << "no setting says \"try\"";
  }
  const auto asked = take(context_.find(base, kSize));
  EXPECT_EQ(asked.lifetime, GetParam().lifetime) << "the context and the domain agree";
}

TEST_P(MemoryContract, TellsObserversOnceThatMemoryHasGone) {
  std::optional<Allocation> memory = make(10'000);
  const auto domain = memory->domain().shared_from_this();
  const std::uint64_t base = memory->address();
  const auto early = std::make_shared<Observer>();
  domain->observe(early);
  domain->observe(std::make_shared<Observer>());  // destroyed before it is ever called
  const auto keeper = std::make_shared<Observer>();
  keeper->keeps = true;
  domain->observe(keeper);
  {
    const Allocation copy = *memory;
    const Allocation part = Allocation::borrowed(domain, base + 100, 10);
    memory.reset();
    EXPECT_TRUE(early->told.empty()) << "a copy and a borrowed part still hold it";
  }
  const std::vector<Told> once{{base, 10'000}};
  EXPECT_EQ(early->told, once);
  EXPECT_EQ(keeper->told, once);
  EXPECT_TRUE(is_ours(*domain, base, 10'000)) << "an observer needs it still";
  keeper->kept.reset();
  EXPECT_FALSE(is_ours(*domain, base, 10'000));
  EXPECT_EQ(early->told, once);
}

TEST_P(MemoryContract, TakesAdviceOrSaysThatItDoesNot) {
  const auto memory = make(100'000);
  write(memory, 0, pattern(100'000, 5));
  for (const Advice advice : {Advice::prefetch, Advice::will_not_need, Advice::prefetch}) {
    const auto taken = memory.domain().advise(memory.address() + 10, 50'000, advice);
    EXPECT_EQ(taken.has_value(), GetParam().takes_advice);
    if (!taken) {
      EXPECT_EQ(taken.error().code, Errc::not_supported) << describe(taken.error());
    }
    EXPECT_EQ(read(memory, 0, 100'000), pattern(100'000, 5)) << "contents stay";
  }
  EXPECT_FALSE(memory.domain().advise(memory.address(), 100'001, Advice::will_not_need));
}

TEST_P(MemoryContract, DoesNotFindRangesThatLeaveAnAllocation) {
  const auto memory = make(10'000);
  MemoryDomain& domain = memory.domain();
  const std::uint64_t base = memory.address();
  EXPECT_FALSE(domain.find(base, 10'001));
  EXPECT_FALSE(domain.find(base + 9'999, 2));
  EXPECT_FALSE(domain.find(base + 1, kMany)) << "the end wraps around";
  EXPECT_FALSE(domain.find(base, kMany));
  EXPECT_FALSE(domain.find(base, 0));
  EXPECT_FALSE(is_ours(domain, base + 10'000, 1));
  EXPECT_FALSE(is_ours(domain, base - 1, 1));
}

TEST_P(MemoryContract, ForgetsFreedMemory) {
  std::vector<Allocation> copies(2, make(10'000));
  const auto domain = copies[0].domain().shared_from_this();
  const std::uint64_t address = copies[0].address();
  copies.pop_back();
  EXPECT_TRUE(is_ours(*domain, address, 10'000)) << "a copy of it lives";
  copies.clear();
  EXPECT_FALSE(is_ours(*domain, address, 10'000));
  EXPECT_FALSE(is_ours(*domain, address + 5'000, 1));
  EXPECT_FALSE(domain->export_dmabuf(address, 1));
}

TEST_P(MemoryContract, ClaimsNoForeignMemory) {
  const auto memory = make(4096);
  const int local = 0;
  const auto foreign = std::bit_cast<std::uint64_t>(&local);
  for (const std::uint64_t address : {foreign, std::uint64_t{0}, kMany, std::uint64_t{1} << 62U}) {
    EXPECT_FALSE(is_ours(memory.domain(), address, 1)) << address;
  }
  const auto info = context_.find(foreign, sizeof local);
  ASSERT_TRUE(info) << describe(info.error());
  EXPECT_EQ(info->device->type, MemoryType::host);
  EXPECT_EQ(info->generation, 0U);
}

TEST_P(MemoryContract, IsFoundByItsContext) {
  const auto memory = make(10'000);
  const auto direct = memory.domain().find(memory.address(), 1);
  const auto info = context_.find(memory.address() + 100, 9'900);
  ASSERT_TRUE(info) << describe(info.error());
  EXPECT_EQ(info->device->type, GetParam().type);
  EXPECT_EQ(info->device->name, memory.domain().device().name);
  EXPECT_EQ(info->base_address, memory.address());
  EXPECT_EQ(info->size_bytes, 10'000U);
  EXPECT_EQ(info->generation, direct->generation);
  const auto leaving = context_.find(memory.address() + 100, 9'901);
  ASSERT_FALSE(leaving);
  EXPECT_EQ(leaving.error().code, Errc::invalid_argument) << describe(leaving.error());
}

TEST_P(MemoryContract, GivesEachAllocationItsOwnGeneration) {
  std::set<std::uint64_t> generations;
  const auto note = [&](const Allocation& memory) {
    const auto info = memory.domain().find(memory.address(), 1);
    ASSERT_TRUE(info);
    EXPECT_TRUE(generations.insert(info->generation).second) << info->generation;
    if (!GetParam().exports) return;
    EXPECT_EQ(take(memory.domain().export_dmabuf(memory.address(), 1)).generation,
              info->generation);
  };
  for (int i = 0; i < 20; ++i) note(make(4096));
  const auto one = make(4096);
  const auto other = make(4096);
  note(one);
  note(other);
}

TEST_P(MemoryContract, ExportsOneDmabufForAllOfAnAllocation) {
  constexpr std::uint64_t kSize = 100'000;
  const auto memory = make(kSize, 7);
  MemoryDomain& domain = memory.domain();
  const auto whole = domain.export_dmabuf(memory.address(), kSize);
  if (!GetParam().exports) {
    ASSERT_FALSE(whole);
    EXPECT_EQ(whole.error().code, Errc::not_supported);
    EXPECT_EQ(whole.error().stage, Stage::export_dmabuf);
    return;
  }
  ASSERT_TRUE(whole) << describe(whole.error());
  EXPECT_EQ(whole->address(), memory.address());
  EXPECT_NE(::fcntl(whole->fd->get(), F_GETFD) & FD_CLOEXEC, 0) << "a child would inherit it";
  for (const auto& [offset, length] : {std::pair<std::uint64_t, std::uint64_t>{1, 1},
                                       {4095, 2},
                                       {50'000, 50'000},
                                       {kSize - 1, 1}}) {
    const auto part = take(domain.export_dmabuf(memory.address() + offset, length));
    EXPECT_EQ(part.fd, whole->fd);
    EXPECT_EQ(part.base_address, whole->base_address);
    EXPECT_EQ(part.offset_bytes, whole->offset_bytes + offset);
    EXPECT_EQ(part.length_bytes, length);
    EXPECT_EQ(part.address(), memory.address() + offset);
    EXPECT_EQ(part.address() % 4096, part.offset_bytes % 4096) << "the kernel's page rule";
  }

  struct stat status {};

  ASSERT_EQ(::fstat(whole->fd->get(), &status), 0);
  EXPECT_GE(static_cast<std::uint64_t>(status.st_size), whole->offset_bytes + kSize);
}

TEST_P(MemoryContract, RefusesToExportRangesThatLeaveAnAllocation) {
  const auto memory = make(10'000);
  MemoryDomain& domain = memory.domain();
  const std::uint64_t base = memory.address();
  for (const auto& [address, length] : {std::pair<std::uint64_t, std::uint64_t>{base, 10'001},
                                        {base + 10'001, 1},
                                        {base + 1, kMany},
                                        {base, 0},
                                        {0, 1}}) {
    const auto range = domain.export_dmabuf(address, length);
    ASSERT_FALSE(range) << address << " " << length;
    EXPECT_EQ(range.error().code, GetParam().exports ? Errc::invalid_argument : Errc::not_supported)
        << describe(range.error());
    EXPECT_EQ(range.error().stage, Stage::export_dmabuf) << describe(range.error());
  }
}

TEST_P(MemoryContract, LeavesNoDescriptorBehind) {
  static_cast<void>(make(4096).domain().device());  // by now all lazily made objects exist
  const int before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    const auto memory = make(4096);
    const auto range = memory.domain().export_dmabuf(memory.address(), 4096);
    EXPECT_EQ(range.has_value(), GetParam().exports);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(MemoryContract, IsBorrowedInParts) {
  const auto memory = make(10'000);
  write(memory, 0, pattern(10'000, 1));
  {
    const auto part = take(context_.borrow(memory.address() + 5'000, 1'000));
    EXPECT_EQ(part.address(), memory.address() + 5'000);
    EXPECT_EQ(part.size_bytes(), 1'000U);
    EXPECT_EQ(&part.domain(), &memory.domain());
    auto expected = pattern(10'000, 1);
    EXPECT_EQ(read(part, 0, 1'000),
              std::vector(expected.begin() + 5'000, expected.begin() + 6'000));
    write(part, 0, pattern(1'000, 2));
  }
  auto expected = pattern(10'000, 1);
  std::ranges::copy(pattern(1'000, 2), expected.begin() + 5'000);
  EXPECT_EQ(read(memory, 0, 10'000), expected) << "the lender's memory has the written bytes";
  EXPECT_FALSE(context_.borrow(memory.address() + 5'000, 5'001));
}

TEST_P(ApplicationMemoryContract, IsBorrowed) {
  const auto own = GetParam().application_memory(context_, 10'000);
  const auto info = context_.find(own.address, 10'000);
  ASSERT_TRUE(info) << describe(info.error());
  EXPECT_EQ(info->device->type, GetParam().type);
  EXPECT_EQ(info->lifetime, GetParam().application_lifetime);
  {
    const auto memory = take(context_.borrow(own.address, 10'000));
    write(memory, 0, pattern(10'000, 3));
  }
  const auto again = take(context_.borrow(own.address + 1, 9'999));
  EXPECT_EQ(read(again, 0, 1).front(), pattern(10'000, 3).at(1)) << "it is the application's still";
}

TEST_P(ApplicationMemoryTransfer, IsRegisteredWhereItLies) {
  const auto own = GetParam().application_memory(context_, 10'000);
  const auto memory = take(context_.borrow(own.address, 10'000));
  const auto region = take(nic().register_memory(memory, Access::remote_write));
  EXPECT_EQ(region.address(), own.address);
  EXPECT_EQ(region.path(), GetParam().exports ? Path::zero_copy : Path::host);
}

}  // namespace hbmwire::test
