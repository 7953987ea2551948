// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <fstream>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire {
namespace {

constexpr auto kSoon = std::chrono::seconds(10);

Result<std::shared_ptr<MemoryDomain>> open_host() {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  return context.open(MemoryType::host);
}

TEST(HostMemory, CopiesInAndOut) {
  const auto host = open_host();
  ASSERT_TRUE(host);
  const auto memory = (*host)->allocate(10000);
  ASSERT_TRUE(memory);
  std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE((*host)->copy_in(memory->address() + 9997, bytes, {Deadline::after(kSoon)}));
  std::array<std::byte, 3> back{};
  ASSERT_TRUE((*host)->copy_out(memory->address() + 9997, back, {Deadline::after(kSoon)}));
  EXPECT_EQ(back, bytes);
}

TEST(HostMemory, RefusesSizeZeroAndAbsurdSizes) {
  const auto host = open_host();
  EXPECT_EQ((*host)->allocate(0).error().code, Errc::invalid_argument);
  EXPECT_EQ((*host)->allocate(1ULL << 60).error().code, Errc::exhausted);
}

/// The kernel would grant it, and kill this process when it touches the pages.
TEST(HostMemory, RefusesMoreThanTheMachineHasBeforeAPageIsTouched) {
  const MemoryRoom room = host_memory_room();
  const auto host = open_host();
  for (const std::uint64_t bytes : {room.bytes + (std::uint64_t{1} << 30U), room.limit_bytes + 1}) {
    const auto refused = (*host)->allocate(bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::exhausted);
    EXPECT_EQ(refused.error().hint, room.limit) << describe(refused.error());
  }
}

/// Memory that is allocated but not touched appears in no usage that the kernel reports.
TEST(HostMemory, CountsUntouchedAllocations) {
  const MemoryRoom room = host_memory_room();
  const auto host = open_host();
  const std::uint64_t part = room.limit_bytes / 4;
  std::vector<Allocation> parts;
  for (int i = 0; i < 5; ++i) {
    auto memory = (*host)->allocate(part);
    if (!memory) {
      EXPECT_EQ(memory.error().call, std::string("more than the process can have"))
          << describe(memory.error());
      break;
    }
    parts.push_back(std::move(*memory));
  }
  EXPECT_LE(parts.size(), 4U);
  parts.clear();
  EXPECT_TRUE((*host)->allocate(room.bytes / 4)) << "memory that was given back counts no more";
}

/// The number of resident pages in [address, address + length).
std::size_t resident(std::uint64_t address, std::size_t length) {
  std::vector<unsigned char> pages(length / 4096);
  EXPECT_EQ(::mincore(std::bit_cast<void*>(address), length, pages.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; }));
}

TEST(HostMemory, IsPrefetchedWithoutBeingWritten) {
  constexpr std::size_t kBytes = 64 * 4096;
  for (const bool shared : {false, true}) {
    const auto domain =
        Context::create()->open(MemoryType::host, {.device = {}, .host = {.shared = shared}});
    const auto memory = (*domain)->allocate(kBytes);
    ASSERT_TRUE(memory);
    EXPECT_EQ(resident(memory->address(), kBytes), 0U);
    const auto taken = (*domain)->advise(memory->address() + 4097, 8192, Advice::prefetch);
    ASSERT_TRUE(taken) << describe(taken.error());
    EXPECT_GE(resident(memory->address() + 4096, 3 * 4096), 3U)
        << "each page that has a byte of it";
    const auto* const bytes = std::bit_cast<const std::byte*>(memory->address());
    EXPECT_TRUE(std::all_of(bytes, bytes + kBytes, [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(HostMemory, AdviceOnUnmappedMemoryIsAnError) {
  const auto domain = Context::create()->open(MemoryType::host);
  void* const hole = ::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  ASSERT_EQ(::munmap(hole, 8192), 0);
  const auto taken = (*domain)->advise(std::bit_cast<std::uint64_t>(hole), 8192, Advice::prefetch);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().stage, Stage::allocate) << describe(taken.error());
  EXPECT_TRUE((*domain)->advise(std::bit_cast<std::uint64_t>(hole), 10, Advice::will_not_need))
      << "no whole page: nothing is done";
}

TEST(HostMemory, HasNoDmabuf) {
  const auto host = open_host();
  const auto memory = (*host)->allocate(4096);
  const auto exported = (*host)->export_dmabuf(memory->address(), 4096);
  ASSERT_FALSE(exported);
  EXPECT_EQ(exported.error().code, Errc::not_supported);
}

Result<std::shared_ptr<MemoryDomain>> open_kind(const HostMemoryOptions& kind) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  return context.open(MemoryType::host, {.device = {}, .host = kind});
}

TEST(HostMemory, NamesItsKind) {
  EXPECT_EQ((*open_host())->device().name, "host");
  EXPECT_EQ((*open_host())->device().numa_node, -1);
  EXPECT_EQ((*open_kind({.shared = true}))->device().name, "host (shared)");
}

TEST(HostMemory, KindsAreDomainsOfTheirOwn) {
  const auto context = Context::create();
  const auto ordinary = *context->open(MemoryType::host);
  const auto shared = *context->open(MemoryType::host, {.device = {}, .host = {.shared = true}});
  EXPECT_EQ(ordinary, *context->open(MemoryType::host));
  EXPECT_NE(ordinary, shared);
  const auto memory = shared->allocate(100);
  ASSERT_TRUE(memory);
  EXPECT_FALSE(ordinary->find(memory->address(), 1)) << "the memory belongs to the other domain";
  const auto info = context->find(memory->address(), 100);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->device->name, "host (shared)");
  EXPECT_EQ(&context->borrow(memory->address(), 100)->domain(), shared.get());
  const int local = 0;
  EXPECT_FALSE(shared->find(std::bit_cast<std::uint64_t>(&local), 1)) << "it is ordinary memory";
}

TEST(HostMemory, OnlySharedMemoryIsSharedWithAChild) {
  for (const bool shared : {false, true}) {
    const auto host = open_kind({.shared = shared});
    const auto memory = (*host)->allocate(4096);
    ASSERT_TRUE(memory) << describe(memory.error());
    auto* const byte = std::bit_cast<volatile char*>(memory->address());
    *byte = 1;
    const pid_t child = ::fork();
    if (child == 0) {
      *byte = 2;
      ::_exit(0);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(*byte, shared ? 2 : 1);
  }
}

TEST(HostMemory, IsBoundToItsNode) {
  if (!std::filesystem::exists("/sys/devices/system/node/node0"))
    GTEST_SKIP() << "this kernel knows no NUMA nodes";
  const auto host = open_kind({.numa_node = 0});
  ASSERT_TRUE(host) << describe(host.error());
  EXPECT_EQ((*host)->device().numa_node, 0);
  EXPECT_EQ((*host)->device().name, "host (node 0)");
  const auto memory = (*host)->allocate(8192);
  ASSERT_TRUE(memory) << describe(memory.error());
  int mode = -1;
  std::array<unsigned long, 16> mask{};  // 1024 bits
  ASSERT_EQ(
      ::syscall(SYS_get_mempolicy, &mode, mask.data(), 1024UL, memory->address(), MPOL_F_ADDR), 0);
  EXPECT_EQ(mode, MPOL_BIND);
  EXPECT_EQ(mask[0], 1U);
}

TEST(HostMemory, RefusesUnknownNodes) {
  for (const int node : {1023, 1024, 100'000, -2}) {
    const auto host = open_kind({.numa_node = node});
    ASSERT_FALSE(host) << node;
    EXPECT_EQ(host.error().code, Errc::not_found);
    EXPECT_EQ(host.error().hint, Hint::no_such_numa_node);
    EXPECT_NE(describe(host.error()).find("node " + std::to_string(node)), std::string::npos)
        << describe(host.error());
  }
}

TEST(HostMemory, HasNoDeviceOfAnotherName) {
  const auto context = Context::create();
  EXPECT_TRUE(context->open(MemoryType::host, {.device = "host"}));
  const auto named = context->open(MemoryType::host, {.device = "0000:33:00.0"});
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().hint, Hint::no_such_device);
  const int local = 0;
  const auto address = std::bit_cast<std::uint64_t>(&local);
  EXPECT_TRUE(context->find(address, 1, "host"));
  EXPECT_FALSE(context->find(address, 1, "0000:33:00.0")) << "the named device does not have it";
}

TEST(HostMemory, TwoContextsGiveNoGenerationTwice) {
  const auto first = open_host();
  const auto second = open_host();
  const auto one = (*first)->allocate(1);
  const auto two = (*second)->allocate(1);
  EXPECT_NE((*first)->find(one->address(), 1)->generation,
            (*second)->find(two->address(), 1)->generation);
}

constexpr std::array kHugePages{HostMemoryOptions::Pages::huge_2m,
                                HostMemoryOptions::Pages::huge_1g};

TEST(HugePages, SayHowToGetMore) {
  for (const auto pages : kHugePages) {
    for (const bool shared : {false, true}) {
      const auto host = open_kind({.pages = pages, .shared = shared});
      if (!host) {
        EXPECT_EQ(host.error().hint, Hint::no_huge_pages) << "this CPU has none of the size";
        continue;
      }
      const auto memory = (*host)->allocate(std::uint64_t{1} << 45U);
      ASSERT_FALSE(memory);
      EXPECT_EQ(memory.error().code, Errc::exhausted);
      const std::string text = describe(memory.error());
      EXPECT_NE(text.find("vm.nr_hugepages"), std::string::npos) << text;
    }
  }
}

int free_huge_pages() {
  int count = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> count;
  return count;
}

TEST(HugePages, AreTakenFromThePoolAndGivenBack) {
  const int before = free_huge_pages();
  if (before < 2) GTEST_SKIP() << "the pool of 2 MiB pages is empty: `sysctl vm.nr_hugepages=2`";
  for (const HostMemoryOptions& kind :
       {HostMemoryOptions{.pages = HostMemoryOptions::Pages::huge_2m},
        HostMemoryOptions{.pages = HostMemoryOptions::Pages::huge_2m, .shared = true},
        HostMemoryOptions{.pages = HostMemoryOptions::Pages::huge_2m, .numa_node = 0}}) {
    const auto host = open_kind(kind);
    ASSERT_TRUE(host) << describe(host.error());
    EXPECT_EQ((*host)->device().page_bytes, 2U << 20U);
    {
      const auto memory = (*host)->allocate((2U << 20U) + 1);
      ASSERT_TRUE(memory) << describe(memory.error());
      EXPECT_EQ(free_huge_pages(), before - 2) << "all of them at once";
      std::array<std::byte, 1> byte{std::byte{7}};
      EXPECT_TRUE(
          (*host)->copy_in(memory->address() + (2U << 20U), byte, {Deadline::after(kSoon)}));
    }
    EXPECT_EQ(free_huge_pages(), before);
  }
}

TEST(Allocation, KeepsItsDomainAlive) {
  auto host = open_host();
  auto memory = (*host)->allocate(4096);
  const std::weak_ptr<MemoryDomain> watch = *host;
  host->reset();
  EXPECT_FALSE(watch.expired());
  memory = tl::make_unexpected(Error{});
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace hbmwire
