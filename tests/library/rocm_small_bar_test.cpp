// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hbmwire/memory_domain.hpp"

#include "emulated_rocm.hpp"
#include "helpers.hpp"
#include "open_memory.hpp"

// AMD GPUs without a large BAR (`hbmwire emulate --bar small`), whose dma-bufs no NIC can reach.
namespace hbmwire {
namespace {

using test::filled;
using test::Rocm;
using test::soon;

constexpr const char* kCause = "no large BAR";

TEST(RocmSmallBar, IsNamedWhereMemoryIsFoundAndRegistered) {
  const auto context = Context::create();
  ASSERT_TRUE(context) << describe(context.error());
  const auto& probe = context->memory()[static_cast<std::size_t>(MemoryType::rocm)];
  ASSERT_TRUE(probe.missing);
  EXPECT_EQ(probe.missing->hint, Hint::rocm_dmabuf_not_supported);
  EXPECT_NE(describe(*probe.missing).find(kCause), std::string::npos) << describe(*probe.missing);
  const auto gpu = context->open(MemoryType::rocm);
  ASSERT_TRUE(gpu) << describe(gpu.error());
  const auto memory = (*gpu)->allocate(4096);
  ASSERT_TRUE(memory) << describe(memory.error());
  const auto region = Nic::open()->register_memory(*memory, Access::remote_write);
  ASSERT_FALSE(region);
  EXPECT_NE(describe(region.error()).find(kCause), std::string::npos) << describe(region.error());
}

TEST(RocmSmallBar, CopiesWork) {
  const auto gpu = test::open_memory(MemoryType::rocm);
  ASSERT_TRUE(gpu) << describe(gpu.error());
  const auto memory = (*gpu)->allocate(10000);
  ASSERT_TRUE(memory) << describe(memory.error());
  const Rocm rocm;
  void* const of_hip = rocm.hip_malloc(0, 10000);
  const auto bytes = filled(10000, 7);
  for (const std::uint64_t address : {memory->address(), reinterpret_cast<std::uint64_t>(of_hip)}) {
    std::vector<std::byte> back(bytes.size());
    EXPECT_TRUE((*gpu)->copy_in(address, bytes, soon()));
    EXPECT_TRUE((*gpu)->copy_out(address, back, soon()));
    EXPECT_EQ(back, bytes);
  }
  rocm.hip_free(of_hip);
}

}  // namespace
}  // namespace hbmwire
