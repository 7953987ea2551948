// SPDX-License-Identifier: MIT
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

namespace fs = std::filesystem;

class RocmAgents : public RocmTest {};

TEST_F(RocmAgents, AgentsAreThoseOfSysfs) {
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    std::uint32_t bdf = 0;
    std::uint32_t domain = 0;
    ASSERT_EQ(hsa_agent_get_info(gpus_[i], HSA_AMD_AGENT_INFO_BDFID, &bdf), HSA_STATUS_SUCCESS);
    ASSERT_EQ(hsa_agent_get_info(gpus_[i], HSA_AMD_AGENT_INFO_DOMAIN, &domain), HSA_STATUS_SUCCESS);
    // The id has the bus, then 5 bits of the device and 3 of the function.
    std::array<char, 32> address{};
    std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.%x", domain, bdf >> 8U,
                  bdf >> 3U & 31U, bdf & 7U);
    const fs::path sysfs(std::getenv("SYSFS_PATH"));
    std::string name;
    std::ifstream(sysfs / "bus/pci/devices" / address.data() / "emulated_as") >> name;
    EXPECT_EQ(name, "rocm" + std::to_string(i)) << address.data();
  }
}

TEST_F(RocmAgents, AgentsTellTheirTypesAndNames) {
  hsa_device_type_t type = HSA_DEVICE_TYPE_DSP;
  EXPECT_EQ(hsa_agent_get_info(host_, HSA_AGENT_INFO_DEVICE, &type), HSA_STATUS_SUCCESS);
  EXPECT_EQ(type, HSA_DEVICE_TYPE_CPU);
  EXPECT_EQ(hsa_agent_get_info(gpus_[1], HSA_AGENT_INFO_DEVICE, &type), HSA_STATUS_SUCCESS);
  EXPECT_EQ(type, HSA_DEVICE_TYPE_GPU);
  std::array<char, 64> name{};
  EXPECT_EQ(hsa_agent_get_info(gpus_[0], HSA_AGENT_INFO_NAME, name.data()), HSA_STATUS_SUCCESS);
  EXPECT_STREQ(name.data(), "gfx942");
  EXPECT_EQ(hsa_agent_get_info({0x1234}, HSA_AGENT_INFO_NAME, name.data()),
            HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(hsa_agent_get_info(gpus_[0], HSA_AGENT_INFO_NAME, nullptr),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

TEST_F(RocmAgents, APoolOfTheChipsOwnMemoryAllocatesNothing) {
  struct Pools {
    std::vector<hsa_amd_memory_pool_t> all;
  } pools;

  const auto collect = [](hsa_amd_memory_pool_t pool, void* data) {
    static_cast<Pools*>(data)->all.push_back(pool);
    return HSA_STATUS_SUCCESS;
  };
  ASSERT_EQ(hsa_amd_agent_iterate_memory_pools(gpus_[0], collect, &pools), HSA_STATUS_SUCCESS);
  ASSERT_EQ(pools.all.size(), 2U);
  // The first pool is the memory within a compute unit, the second the GPU's HBM.
  hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GLOBAL;
  bool allowed = true;
  EXPECT_EQ(hsa_amd_memory_pool_get_info(pools.all[0], HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment),
            HSA_STATUS_SUCCESS);
  EXPECT_EQ(segment, HSA_AMD_SEGMENT_GROUP);
  EXPECT_EQ(hsa_amd_memory_pool_get_info(pools.all[0],
                                         HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed),
            HSA_STATUS_SUCCESS);
  EXPECT_FALSE(allowed);
  void* pointer = nullptr;
  EXPECT_EQ(hsa_amd_memory_pool_allocate(pools.all[0], 4096, 0, &pointer),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(RocmAgents, ACallbackEndsTheIteration) {
  int visits = 0;
  const auto once = [](hsa_agent_t, void* data) {
    ++*static_cast<int*>(data);
    return HSA_STATUS_INFO_BREAK;
  };
  EXPECT_EQ(hsa_iterate_agents(once, &visits), HSA_STATUS_INFO_BREAK);
  EXPECT_EQ(visits, 1);
}

TEST_F(RocmAgents, TheCpuCanBeGivenAccessThroughALargeBar) {
  hsa_amd_memory_pool_access_t access = HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
  EXPECT_EQ(hsa_amd_agent_memory_pool_get_info(host_, gpu_pools_[0],
                                               HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access),
            HSA_STATUS_SUCCESS);
  EXPECT_EQ(access, HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
}

}  // namespace
}  // namespace hbmwire::test
