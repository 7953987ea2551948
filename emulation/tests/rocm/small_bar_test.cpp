// SPDX-License-Identifier: MIT
//
// `hbmwire emulate --bar small`: no interface reports a large BAR, and the CPU gets no access.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "emulation/rocm/abi/hip.h"
#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

class RocmSmallBar : public RocmTest {};

TEST_F(RocmSmallBar, RocrHipAndSysfsReportASmallBar) {
  hsa_amd_memory_pool_access_t access = HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT;
  EXPECT_EQ(hsa_amd_agent_memory_pool_get_info(host_, gpu_pools_[1],
                                               HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access),
            HSA_STATUS_SUCCESS);
  EXPECT_EQ(access, HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);
  int large_bar = -1;
  EXPECT_EQ(hipDeviceGetAttribute(&large_bar, hipDeviceAttributeIsLargeBar, 1), hipSuccess);
  EXPECT_EQ(large_bar, 0);
  hipDeviceProp_tR0600 properties{};
  EXPECT_EQ(hipGetDevicePropertiesR0600(&properties, 1), hipSuccess);
  EXPECT_EQ(properties.isLargeBar, 0);
  std::array<char, 13> address{};
  ASSERT_EQ(hipDeviceGetPCIBusId(address.data(), address.size(), 1), hipSuccess);
  std::string visible;
  std::ifstream(std::filesystem::path(std::getenv("SYSFS_PATH")) / "bus/pci/devices" /
                address.data() / "mem_info_vis_vram_total") >>
      visible;
  EXPECT_EQ(visible, "268435456");  // 256 MiB
}

TEST_F(RocmSmallBar, TheCpuGetsNoAccess) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  EXPECT_EQ(hsa_amd_agents_allow_access(1, &host_, nullptr, memory.get()),
            HSA_STATUS_ERROR_OUT_OF_RESOURCES);
  EXPECT_FALSE(cpu_reaches(memory.get()));
  void* allocated = nullptr;
  ASSERT_EQ(hipMalloc(&allocated, 4096), hipSuccess);
  EXPECT_FALSE(cpu_reaches(allocated));
  EXPECT_EQ(hipFree(allocated), hipSuccess);
}

TEST_F(RocmSmallBar, ExportsThroughPcieAreRefused) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  int dmabuf = -1;
  std::uint64_t offset = 0;
  EXPECT_EQ(hsa_amd_portable_export_dmabuf_v2(memory.get(), 4096, &dmabuf, &offset,
                                              HSA_AMD_DMABUF_MAPPING_TYPE_PCIE),
            HSA_STATUS_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(hsa_amd_portable_export_dmabuf_v2(memory.get(), 4096, &dmabuf, &offset,
                                              HSA_AMD_DMABUF_MAPPING_TYPE_NONE),
            HSA_STATUS_SUCCESS);
  ::close(dmabuf);
}

}  // namespace
}  // namespace hbmwire::test
