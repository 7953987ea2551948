// SPDX-License-Identifier: MIT
//
// hsa_amd_ipc_memory_... between processes that free memory, end and are killed.
#include <optional>

#include "emulation/rocm/testing_hooks.hpp"
#include "ipc_world.hpp"

namespace hbmwire::test {
namespace {

class RocmIpcProcesses : public RocmIpc {};

// 4194304 bytes are two blocks.
TEST_F(RocmIpcProcesses, FreedMemoryStaysAttachedInOtherProcesses) {
  const std::uint64_t before = free_bytes();
  char* const address = attach_valid(other_.tell("offer 4194304 kept"), 4194304);
  EXPECT_EQ(other_.tell("free"), "0");
  EXPECT_EQ(other_.tell("offer 4194304 next").size(), kHandleDigits);
  EXPECT_EQ(get(address, 4), "kept");
  put(address, "mine");
  EXPECT_EQ(other_.tell("read 0 4"), "next");
  EXPECT_EQ(free_bytes(), before - 4 * kBlock) << "the freed memory and the next";
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
  EXPECT_EQ(other_.tell("live range"), "1")
      << "the owner frees the memory as soon as it is detached";
  EXPECT_EQ(free_bytes(), before - 2 * kBlock);
  EXPECT_EQ(other_.tell("free"), "0");
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(RocmIpcProcesses, FreedPartsOfABlockStayAttached) {
  const std::uint64_t before = free_bytes();
  EXPECT_EQ(other_.tell("offer 4096 stays").size(), kHandleDigits);
  char* const address = attach_valid(other_.tell("offer 4096 kept"), 4096);
  EXPECT_EQ(other_.tell("free"), "0");
  EXPECT_EQ(other_.tell("offer 4096 next").size(), kHandleDigits);
  EXPECT_EQ(get(address, 4), "kept")
      << "its place in the block is not given to another allocation yet";
  EXPECT_EQ(other_.tell("live range"), "1");
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
  EXPECT_EQ(other_.tell("free"), "0");
  // The next allocation takes the whole block except its first page. It fits only if the freed
  // places are reused.
  EXPECT_EQ(other_.tell("offer 2093056 fits").size(), kHandleDigits);
  EXPECT_EQ(other_.tell("live range"), "1");
  EXPECT_EQ(free_bytes(), before - kBlock);
}

TEST_F(RocmIpcProcesses, AStaleHandleAttachesNothing) {
  const std::string freed = other_.tell("offer 4096 text");
  EXPECT_EQ(other_.tell("free"), "0");
  char* address = nullptr;
  EXPECT_EQ(attach(address, freed, 4096), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(other_.tell("offer 4096 text").size(), kHandleDigits);
  EXPECT_EQ(attach(address, freed, 4096), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(other_.tell("live share"), "1") << "the new memory's handle alone";
  EXPECT_EQ(address, nullptr);
}

TEST_F(RocmIpcProcesses, AHandleOfAnotherWorldAttachesNothing) {
  // Worlds do not nest: without this variable the program does not see that it is in one.
  Peer foreign({"/usr/bin/env", "-u", "HBMWIRE_EMULATION_NODE", HBMWIRE_EMULATE, "--quiet",
                "--nics", "0", "--gaudi", "0", "--rocm", "2", "--", HBMWIRE_ROCM_IPC_PEER});
  const std::string handle = foreign.tell("offer 4096 text");
  ASSERT_EQ(handle.size(), kHandleDigits) << handle;
  char* address = nullptr;
  EXPECT_EQ(attach(address, handle, 4096), HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

TEST_F(RocmIpcProcesses, AKilledOwnersMemoryIsThereUntilItIsDetached) {
  const std::uint64_t before = free_bytes();
  const std::string handle = other_.tell("offer 4194304 kept");
  char* const address = attach_valid(handle, 4194304);
  Peer third({HBMWIRE_ROCM_IPC_PEER});
  other_.kill();
  EXPECT_EQ(third.tell("open " + handle + " 4194304"),
            std::to_string(HSA_STATUS_ERROR_INVALID_ARGUMENT))
      << "no process offers it";
  EXPECT_EQ(free_bytes(), before - 2 * kBlock);
  {
    const PoolMemory own(gpu_pools_[0], 2 * kBlock);
    put(own.get(), "mine");
    EXPECT_EQ(get(address, 4), "kept");
    put(address, "written");
    EXPECT_EQ(get(address, 7), "written");
  }
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(RocmIpcProcesses, AKilledImporterKeepsNothing) {
  const std::uint64_t before = free_bytes();
  {
    const PoolMemory large(gpu_pools_[0], 2 * kBlock);
    EXPECT_EQ(other_.tell("open " + handle_of(large, 2 * kBlock) + " 4194304"), "0");
    EXPECT_EQ(other_.tell("live ipc"), "1");
    EXPECT_EQ(other_.tell("write 0 theirs"), "0");
    EXPECT_EQ(get(large.get(), 6), "theirs");
  }
  EXPECT_EQ(free_bytes(), before - 2 * kBlock);
  other_.kill();
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "range"), 0U);
}

TEST_F(RocmIpcProcesses, TwoProcessesMayAttachOneHandle) {
  const std::uint64_t before = free_bytes();
  std::optional<Peer> third;
  third.emplace(std::vector<std::string>{HBMWIRE_ROCM_IPC_PEER});
  {
    const PoolMemory own(gpu_pools_[0], 2 * kBlock);
    put(own.get(), "first");
    const std::string handle = handle_of(own, 2 * kBlock) + " 4194304";
    EXPECT_EQ(other_.tell("open " + handle), "0");
    EXPECT_EQ(third->tell("open " + handle), "0");
    EXPECT_EQ(third->tell("read 0 5"), "first");
    EXPECT_EQ(other_.tell("write 0 other"), "0");
    EXPECT_EQ(third->tell("read 0 5"), "other");
    EXPECT_EQ(get(own.get(), 5), "other");
    EXPECT_EQ(other_.tell("close"), "0");
  }
  EXPECT_EQ(third->tell("read 0 5"), "other") << "one process still has it attached";
  EXPECT_EQ(free_bytes(), before - 2 * kBlock);
  third.reset();  // ends without detaching
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(RocmIpcProcesses, ShuttingDownDetaches) {
  const std::uint64_t before = free_bytes();
  {
    const PoolMemory own(gpu_pools_[0], kBlock);
    EXPECT_EQ(other_.tell("open " + handle_of(own, kBlock) + " 2097152"), "0");
  }
  EXPECT_EQ(free_bytes(), before - kBlock);
  EXPECT_EQ(other_.tell("end"), "0");
  EXPECT_EQ(other_.tell("live ipc"), "0");
  EXPECT_EQ(free_bytes(), before);
}

}  // namespace
}  // namespace hbmwire::test
