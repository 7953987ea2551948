// SPDX-License-Identifier: MIT
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "emulation/rocm/testing_hooks.hpp"
#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

class RocmExports : public RocmTest {
 protected:
  static int export_all(const PoolMemory& memory, std::size_t bytes, std::uint64_t& offset) {
    int fd = -1;
    EXPECT_EQ(hsa_amd_portable_export_dmabuf(memory.get(), bytes, &fd, &offset),
              HSA_STATUS_SUCCESS);
    return fd;
  }
};

TEST_F(RocmExports, AnExportIsOfTheWholeBlockAndTellsTheOffset) {
  const PoolMemory first(gpu_pools_[0], 100);
  const PoolMemory second(gpu_pools_[0], 100);
  std::uint64_t offset = 99;
  const int fd = export_all(second, 100, offset);
  EXPECT_EQ(offset, 4096U);

  struct stat status {};

  EXPECT_EQ(::fstat(fd, &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kBlock);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
  const std::string text = "through the dma-buf";
  write_gpu(gpus_[0], host_, second.get() + 10, text.data(), text.size());
  {
    const Imported imported(fd);
    EXPECT_EQ(std::string(imported.data() + offset + 10, text.size()), text);
  }
  EXPECT_EQ(hsa_amd_portable_close_dmabuf(fd), HSA_STATUS_SUCCESS);
  EXPECT_EQ(hsa_amd_portable_close_dmabuf(fd), HSA_STATUS_ERROR_RESOURCE_FREE);
}

TEST_F(RocmExports, TheNewerCallTakesEitherMappingType) {
  const PoolMemory memory(gpu_pools_[1], kBlock);
  for (const std::uint64_t flags :
       {HSA_AMD_DMABUF_MAPPING_TYPE_NONE, HSA_AMD_DMABUF_MAPPING_TYPE_PCIE}) {
    int fd = -1;
    std::uint64_t offset = 0;
    EXPECT_EQ(hsa_amd_portable_export_dmabuf_v2(memory.get() + 100, 1, &fd, &offset, flags),
              HSA_STATUS_SUCCESS);
    EXPECT_EQ(offset, 100U);
    EXPECT_EQ(::close(fd), 0);
  }
}

TEST_F(RocmExports, ExportsThatRocrRefusesAreRefused) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  const PoolMemory pinned(host_pool_, 4096);
  int fd = -1;
  std::uint64_t offset = 0;
  const auto refused = [&](const void* pointer, std::size_t bytes) {
    return hsa_amd_portable_export_dmabuf(pointer, bytes, &fd, &offset);
  };
  EXPECT_EQ(refused(memory.get(), 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused(nullptr, 1), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused(memory.get(), 4097), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(refused(&fd, 1), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(refused(pinned.get(), 4096), HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(fd, -1) << "nothing was made";
}

TEST_F(RocmExports, AnExportKeepsTheMemoryOfAFreedAllocation) {
  int fd = -1;
  {
    PoolMemory memory(gpu_pools_[0], kBlock);
    std::uint64_t offset = 0;
    fd = export_all(memory, kBlock, offset);
    write_gpu(gpus_[0], host_, memory.get(), "kept", 4);
  }
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "allocation"), 0U);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "range"), 1U);
  const PoolMemory next(gpu_pools_[0], kBlock);
  write_gpu(gpus_[0], host_, next.get(), "next", 4);
  EXPECT_EQ(std::string(Imported(fd).data(), 4), "kept");
  ::close(fd);
  std::uint64_t left = 0;  // asking also frees memory that is not used any more
  EXPECT_EQ(hsa_agent_get_info(gpus_[0], HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &left),
            HSA_STATUS_SUCCESS);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "range"), 1U) << "the next allocation's";
}

}  // namespace
}  // namespace hbmwire::test
