// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <thread>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

#include "counted_allocations.hpp"

namespace hbmwire {
namespace {

using Owner = MemoryOptions::Owner;

TEST(FindOfHostAddresses, AllocatesNothingWithEveryTypeOfMemoryLoaded) {
  const auto context = Context::create();
  ASSERT_TRUE(context) << describe(context.error());
  const auto domain = context->open(MemoryType::gaudi, {.device = {}, .owner = Owner::hl_thunk});
  ASSERT_TRUE(domain) << describe(domain.error());
  const auto memory = (*domain)->allocate(4096);
  ASSERT_TRUE(memory);
  std::vector<std::byte> heap(4096);
  std::array<std::byte, 64> stack{};
  test::CountedAllocations allocations;
  bool all_host = true;
  for (int i = 0; i < 1000; ++i) {
    for (const void* address :
         {static_cast<const void*>(heap.data() + i), static_cast<const void*>(stack.data()),
          std::bit_cast<const void*>(&std::malloc)}) {
      const auto info = context->find(std::bit_cast<std::uint64_t>(address), 8);
      all_host = all_host && info && info->device->type == MemoryType::host;
    }
  }
  const int counted = allocations.stop();
  EXPECT_TRUE(all_host);
  EXPECT_EQ(counted, 0);
  EXPECT_EQ(context->find(memory->address())->device->type, MemoryType::gaudi);
}

TEST(Find, MayGoOnInAllThreadsWhileMemoryComesAndGoes) {
  const auto context = Context::create();
  ASSERT_TRUE(context);
  const auto domain = context->open(MemoryType::gaudi, {.device = {}, .owner = Owner::hl_thunk});
  ASSERT_TRUE(domain) << describe(domain.error());
  const auto kept = (*domain)->allocate(4096);
  ASSERT_TRUE(kept);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> finders;
  for (int i = 0; i < 2; ++i) {
    finders.emplace_back([&] {
      while (!stop) {
        const auto own = context->find(kept->address(), 4096);
        const auto other = context->find(std::bit_cast<std::uint64_t>(&stop));
        if (!own || own->base_address != kept->address() || !other ||
            other->device->type != MemoryType::host)
          ++wrong;
      }
    });
  }
  for (int i = 0; i < 500; ++i) {
    const auto memory = (*domain)->allocate(5000);
    const auto info = context->find(memory->address(), 5000);
    ASSERT_TRUE(info) << describe(info.error());
    ASSERT_EQ(info->size_bytes, 5000U);
    // Finders must stand that domains are opened meanwhile.
    const auto again = context->open(MemoryType::gaudi, {.device = "0"});
    ASSERT_TRUE(again);
  }
  stop = true;
  for (auto& finder : finders) finder.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace hbmwire
