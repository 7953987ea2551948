// SPDX-License-Identifier: MIT
//
// cuIpc...MemHandle between processes that free memory, end and are killed.
#include <cstdlib>
#include <optional>

#include "emulation/cuda/testing_hooks.hpp"
#include "ipc_world.hpp"

namespace hbmwire::test {
namespace {

class CudaIpcProcesses : public CudaIpc {};

// 4194304 bytes are two granules.
TEST_F(CudaIpcProcesses, FreedMemoryStaysOpenInOtherProcesses) {
  const std::uint64_t before = free_bytes();
  const std::string handle = other_.tell("offer 4194304 kept");
  const CUdeviceptr address = open_valid(handle);
  EXPECT_EQ(other_.tell("free"), "0");
  EXPECT_EQ(other_.tell("offer 4194304 next").size(), kHandleDigits);
  EXPECT_EQ(get(address, 4), "kept");
  EXPECT_EQ(free_bytes(), before - 4 * kGranule) << "the freed memory and the next";
  put_now(address, "mine");
  EXPECT_EQ(other_.tell("read 0 4"), "next");
  EXPECT_EQ(open_valid(handle), address) << "the context that has it open gets the same address";
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(other_.tell("live physical"), "1")
      << "the owner frees the memory as soon as it is closed";
  EXPECT_EQ(free_bytes(), before - 2 * kGranule);
  EXPECT_EQ(other_.tell("free"), "0");
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(CudaIpcProcesses, FreedPartsOfABlockStayOpen) {
  const std::uint64_t before = free_bytes();
  EXPECT_EQ(other_.tell("offer 600 stays").size(), kHandleDigits);
  const CUdeviceptr address = open_valid(other_.tell("offer 600 kept"));
  EXPECT_EQ(other_.tell("free"), "0");
  EXPECT_EQ(other_.tell("offer 600 next").size(), kHandleDigits);
  EXPECT_EQ(get(address, 4), "kept")
      << "its place in the block is not given to another allocation yet";
  EXPECT_EQ(other_.tell("live physical"), "1");
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(other_.tell("free"), "0");
  // Together with "stays" the next two allocations fill the whole block. They fit only if freed
  // places are reused.
  EXPECT_EQ(other_.tell("offer 1048064 fits").size(), kHandleDigits);
  EXPECT_EQ(other_.tell("offer 1048064 too").size(), kHandleDigits);
  EXPECT_EQ(other_.tell("live physical"), "1");
  EXPECT_EQ(free_bytes(), before - kGranule);
}

TEST_F(CudaIpcProcesses, AStaleHandleOpensNothing) {
  const std::string freed = other_.tell("offer 100 text");
  EXPECT_EQ(other_.tell("free"), "0");
  CUdeviceptr address = kUntouched;
  EXPECT_EQ(open(address, freed), CUDA_ERROR_MAP_FAILED);
  EXPECT_EQ(other_.tell("offer 100 text").size(), kHandleDigits);
  EXPECT_EQ(open(address, freed), CUDA_ERROR_MAP_FAILED) << "not the new memory in the same place";
  EXPECT_EQ(address, kUntouched);
  EXPECT_EQ(other_.tell("live share"), "1") << "the new memory's handle alone";
}

TEST_F(CudaIpcProcesses, AHandleOfAnotherWorldOpensNothing) {
  std::string handle;
  {
    // Worlds do not nest: without this variable the program does not see that it is in one.
    Peer foreign({"/usr/bin/env", "-u", "HBMWIRE_EMULATION_NODE", HBMWIRE_EMULATE, "--quiet",
                  "--nics", "0", "--gaudi", "0", "--cuda", "2", "--", HBMWIRE_CUDA_IPC_PEER});
    handle = foreign.tell("offer 100 text");
    ASSERT_EQ(handle.size(), kHandleDigits) << handle;
    CUdeviceptr address = kUntouched;
    EXPECT_EQ(open(address, handle), CUDA_ERROR_MAP_FAILED);
    EXPECT_EQ(address, kUntouched);
  }
}

TEST_F(CudaIpcProcesses, AKilledOwnersMemoryIsThereUntilItIsClosed) {
  const std::uint64_t before = free_bytes();
  const std::string handle = other_.tell("offer 4194304 kept");
  const CUdeviceptr address = open_valid(handle);
  Peer third({HBMWIRE_CUDA_IPC_PEER});
  other_.kill();
  EXPECT_EQ(third.tell("open " + handle), code(CUDA_ERROR_MAP_FAILED)) << "no process offers it";
  EXPECT_EQ(free_bytes(), before - 2 * kGranule);
  const CUdeviceptr own = allocate(2 * kGranule);
  put_now(own, "mine");
  EXPECT_EQ(get(address, 4), "kept");
  put_now(address, "written");
  EXPECT_EQ(get(address, 7), "written");
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(own), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(CudaIpcProcesses, AKilledImporterKeepsNothing) {
  const std::uint64_t before = free_bytes();
  const CUdeviceptr large = allocate(2 * kGranule);
  EXPECT_EQ(other_.tell("open " + handle_of(large)), "0");
  EXPECT_EQ(other_.tell("live ipc"), "1");
  EXPECT_EQ(other_.tell("write 0 theirs"), "0");
  EXPECT_EQ(cuMemFree_v2(large), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before - 2 * kGranule);
  other_.kill();
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "physical"), 0U);
}

TEST_F(CudaIpcProcesses, TwoProcessesMayOpenOneHandle) {
  const std::uint64_t before = free_bytes();
  const CUdeviceptr own = allocate(2 * kGranule);
  put_now(own, "first");
  std::optional<Peer> third;
  third.emplace(std::vector<std::string>{HBMWIRE_CUDA_IPC_PEER});
  const std::string handle = handle_of(own);
  EXPECT_EQ(other_.tell("open " + handle), "0");
  EXPECT_EQ(third->tell("open " + handle), "0");
  EXPECT_EQ(third->tell("read 0 5"), "first");
  EXPECT_EQ(other_.tell("write 0 other"), "0");
  EXPECT_EQ(third->tell("read 0 5"), "other");
  EXPECT_EQ(get(own, 5), "other");
  EXPECT_EQ(other_.tell("close"), "0");
  EXPECT_EQ(cuMemFree_v2(own), CUDA_SUCCESS);
  EXPECT_EQ(third->tell("read 0 5"), "other") << "one process still has it open";
  EXPECT_EQ(free_bytes(), before - 2 * kGranule);
  third.reset();  // ends without closing
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(CudaIpcProcesses, AHandleReachesAGpuThatTheProcessDoesNotSee) {
  const CUdeviceptr own = allocate(100);
  put_now(own, "unseen");
  ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  Peer blind({HBMWIRE_CUDA_IPC_PEER});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(blind.tell("open " + handle_of(own)), "0");
  EXPECT_EQ(blind.tell("read 0 6"), "unseen");
  EXPECT_EQ(blind.tell("close"), "0");
  EXPECT_EQ(cuMemFree_v2(own), CUDA_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::test
