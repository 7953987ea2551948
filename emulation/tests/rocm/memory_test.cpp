// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <cstdlib>
#include <string>

#include "emulation/rocm/testing_hooks.hpp"
#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

class RocmMemory : public RocmTest {};

TEST_F(RocmMemory, TheCpuFaultsOnGpuMemory) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  volatile char* const pointer = memory.get();
  EXPECT_DEATH(*pointer = 1, "");
  EXPECT_DEATH([[maybe_unused]] const char read = *pointer, "");
}

TEST_F(RocmMemory, SmallAllocationsShareABlock) {
  const PoolMemory first(gpu_pools_[0], 100);
  const PoolMemory second(gpu_pools_[0], 100);
  EXPECT_EQ(second.get(), first.get() + 4096) << "small allocations take whole pages";
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "range"), 1U);
  const PoolMemory large(gpu_pools_[0], kBlock + 1);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "range"), 2U);
}

TEST_F(RocmMemory, FreedMemoryCanBeAllocatedAgain) {
  const auto take_all = [&] {
    void* pointer = nullptr;
    EXPECT_EQ(hsa_amd_memory_pool_allocate(gpu_pools_[0], 190ULL << 30, 0, &pointer),
              HSA_STATUS_SUCCESS);
    void* more = nullptr;
    EXPECT_EQ(hsa_amd_memory_pool_allocate(gpu_pools_[0], 10ULL << 30, 0, &more),
              HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    EXPECT_EQ(hsa_amd_memory_pool_free(pointer), HSA_STATUS_SUCCESS);
  };
  take_all();
  take_all();
}

TEST_F(RocmMemory, CallsThatRocrRefusesAreRefused) {
  void* pointer = nullptr;
  EXPECT_EQ(hsa_amd_memory_pool_allocate(gpu_pools_[0], 0, 0, &pointer),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_memory_pool_allocate(gpu_pools_[0], 1, 0, nullptr),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_memory_pool_allocate({1}, 1, 0, &pointer),
            HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  EXPECT_EQ(hsa_amd_memory_pool_allocate(gpu_pools_[0], 1ULL << 40, 0, &pointer),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
  const PoolMemory memory(gpu_pools_[0], 4096);
  EXPECT_EQ(hsa_amd_memory_pool_free(memory.get() + 1), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(hsa_amd_memory_pool_free(nullptr), HSA_STATUS_SUCCESS);
}

TEST_F(RocmMemory, AnAddressTellsItsAllocation) {
  const PoolMemory memory(gpu_pools_[1], 5000);
  const auto info = info_of(memory.get() + 4999);
  EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_HSA);
  EXPECT_EQ(info.agentBaseAddress, memory.get());
  EXPECT_EQ(info.sizeInBytes, 5000U);
  EXPECT_EQ(info.agentOwner.handle, gpus_[1].handle);
  EXPECT_EQ(info.global_flags, std::uint32_t{HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED});
  int here = 0;
  EXPECT_EQ(info_of(&here).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

// The caller passes the size of the structure that it knows. Bytes after that stay unchanged.
TEST_F(RocmMemory, TheCallerChoosesTheSizeOfTheAnswer) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  hsa_amd_pointer_info_t info{};
  EXPECT_EQ(hsa_amd_pointer_info(memory.get(), &info, nullptr, nullptr, nullptr),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  info.size = offsetof(hsa_amd_pointer_info_t, global_flags);
  info.global_flags = 77;
  EXPECT_EQ(hsa_amd_pointer_info(memory.get(), &info, nullptr, nullptr, nullptr),
            HSA_STATUS_SUCCESS);
  EXPECT_EQ(info.size, offsetof(hsa_amd_pointer_info_t, global_flags));
  EXPECT_EQ(info.global_flags, 77U);
  EXPECT_EQ(info.sizeInBytes, 4096U);
}

TEST_F(RocmMemory, AccessIsGivenToOtherGpus) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  EXPECT_EQ(hsa_amd_agents_allow_access(2, gpus_.data(), nullptr, memory.get()),
            HSA_STATUS_SUCCESS);
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  std::uint32_t count = 0;
  hsa_agent_t* accessible = nullptr;
  EXPECT_EQ(hsa_amd_pointer_info(memory.get(), &info, &std::malloc, &count, &accessible),
            HSA_STATUS_SUCCESS);
  EXPECT_EQ(count, 2U);
  std::free(accessible);
  EXPECT_EQ(hsa_amd_agents_allow_access(0, nullptr, nullptr, memory.get()),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

// The GPUs have a large BAR. The memory shares a block of 2 MiB with an allocation that the CPU may
// not access.
TEST_F(RocmMemory, TheCpuReachesMemoryThatItWasGivenAccessTo) {
  const PoolMemory before(gpu_pools_[0], 4096);
  const PoolMemory memory(gpu_pools_[0], 8192);
  const std::array agents{host_, gpus_[0]};
  ASSERT_EQ(hsa_amd_agents_allow_access(agents.size(), agents.data(), nullptr, memory.get()),
            HSA_STATUS_SUCCESS);
  const std::string written(8192, 'w');
  write_gpu(gpus_[0], host_, memory.get(), written.data(), written.size());
  EXPECT_EQ(std::string(memory.get(), 8192), written) << "an engine's bytes, read by the CPU";
  memory.get()[8191] = 'c';
  std::string read(8192, '-');
  read_gpu(gpus_[0], host_, read.data(), memory.get(), read.size());
  EXPECT_EQ(read, written.substr(1) + "c") << "the CPU's byte, read by an engine";
  EXPECT_FALSE(cpu_reaches(before.get()));
}

TEST_F(RocmMemory, TheCpuLosesAccessIfOnlyOthersAreNamed) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  EXPECT_FALSE(cpu_reaches(memory.get())) << "no access is given yet";
  ASSERT_EQ(hsa_amd_agents_allow_access(1, &host_, nullptr, memory.get()), HSA_STATUS_SUCCESS);
  EXPECT_TRUE(cpu_reaches(memory.get()));
  ASSERT_EQ(hsa_amd_agents_allow_access(1, &gpus_[1], nullptr, memory.get()), HSA_STATUS_SUCCESS);
  EXPECT_FALSE(cpu_reaches(memory.get()));
}

TEST_F(RocmMemory, TheCpusAccessEndsWithTheAllocation) {
  const PoolMemory keeps_the_block(gpu_pools_[0], 4096);
  const char* freed = nullptr;
  {
    const PoolMemory memory(gpu_pools_[0], 4096);
    ASSERT_EQ(hsa_amd_agents_allow_access(1, &host_, nullptr, memory.get()), HSA_STATUS_SUCCESS);
    freed = memory.get();
    EXPECT_TRUE(cpu_reaches(freed));
  }
  EXPECT_FALSE(cpu_reaches(freed));
  const PoolMemory next(gpu_pools_[0], 4096);
  ASSERT_EQ(next.get(), freed);
  EXPECT_FALSE(cpu_reaches(next.get()));
}

struct Freed {
  int times = 0;
  void* address = nullptr;
};

void note_freed(void* address, void* data) {
  auto& freed = *static_cast<Freed*>(data);
  ++freed.times;
  freed.address = address;
  // ROCr holds no lock while it calls this, so its functions can be called.
  EXPECT_EQ(info_of(address).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

TEST_F(RocmMemory, ObserversAreNotifiedWhenMemoryIsFreed) {
  Freed freed;
  PoolMemory memory(gpu_pools_[0], 4096);
  char* const inside = memory.get() + 10;
  EXPECT_EQ(hsa_amd_register_deallocation_callback(inside, &note_freed, &freed),
            HSA_STATUS_SUCCESS);
  memory.free();
  EXPECT_EQ(freed.times, 1);
  EXPECT_EQ(freed.address, inside);
  EXPECT_EQ(hsa_amd_register_deallocation_callback(inside, &note_freed, &freed),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(RocmMemory, ARemovedObserverIsNotNotified) {
  Freed freed;
  PoolMemory memory(gpu_pools_[0], 4096);
  EXPECT_EQ(hsa_amd_deregister_deallocation_callback(memory.get(), &note_freed),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_register_deallocation_callback(memory.get(), &note_freed, &freed),
            HSA_STATUS_SUCCESS);
  EXPECT_EQ(hsa_amd_deregister_deallocation_callback(memory.get(), &note_freed),
            HSA_STATUS_SUCCESS);
  memory.free();
  EXPECT_EQ(freed.times, 0);
}

/// The pool to allocate from, and the memory that it gave.
struct NextTenant {
  hsa_amd_memory_pool_t pool{};
  void* got = nullptr;
};

void allocate_at_once(void* /*address*/, void* data) {
  auto& next = *static_cast<NextTenant*>(data);
  EXPECT_EQ(hsa_amd_memory_pool_allocate(next.pool, 4096, 0, &next.got), HSA_STATUS_SUCCESS);
}

// A cache that is indexed by address can drop its entry before the address is reused.
TEST_F(RocmMemory, AnAddressIsNotReusedBeforeObserversAreNotified) {
  NextTenant next{.pool = gpu_pools_[0]};
  PoolMemory memory(gpu_pools_[0], 4096);
  const void* const freed = memory.get();
  ASSERT_EQ(hsa_amd_register_deallocation_callback(memory.get(), &allocate_at_once, &next),
            HSA_STATUS_SUCCESS);
  memory.free();
  EXPECT_NE(next.got, freed);
  EXPECT_EQ(hsa_amd_memory_pool_free(next.got), HSA_STATUS_SUCCESS);
}

TEST_F(RocmMemory, PinnedMemoryBelongsToTheHost) {
  const PoolMemory memory(host_pool_, 5000);
  memory.get()[4999] = 7;
  const auto info = info_of(memory.get());
  EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_HSA);
  EXPECT_EQ(info.agentOwner.handle, host_.handle);
}

}  // namespace
}  // namespace hbmwire::test
