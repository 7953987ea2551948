// SPDX-License-Identifier: MIT
//
// cuIpc...MemHandle: the memory that has a handle, the contexts that may open it, and the
// properties of the pointer.
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "emulation/cuda/testing_hooks.hpp"
#include "ipc_world.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kIpcPage = 4096;

/// The result of cuIpcGetMemHandle for memory that gets no handle.
CUresult refusal(CUdeviceptr address) {
  CUipcMemHandle handle{};
  return cuIpcGetMemHandle(&handle, address);
}

TEST_F(CudaIpc, AHandleIsOfTheWholeAllocation) {
  const CUdeviceptr small = allocate(1000);
  const CUdeviceptr neighbour = allocate(1000);
  const std::string handle = handle_of(small);
  EXPECT_EQ(handle_of(small), handle);
  EXPECT_EQ(handle_of(small + 999), handle) << "of each address within the allocation";
  EXPECT_NE(handle_of(neighbour), handle);
  EXPECT_EQ(cuMemFree_v2(small), CUDA_SUCCESS);
  EXPECT_EQ(refusal(small), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr again = allocate(1000);
  ASSERT_EQ(again, small) << "at another address the next check would show nothing";
  EXPECT_NE(handle_of(again), handle) << "another allocation, although at the same address";
  EXPECT_EQ(cuMemFree_v2(again), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(neighbour), CUDA_SUCCESS);
}

TEST_F(CudaIpc, OnlyMemoryOfCuMemAllocHasAHandle) {
  const CUdeviceptr address = allocate(kIpcPage);
  CUdeviceptr managed = 0;
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocManaged(&managed, kIpcPage, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocHost_v2(&host, kIpcPage), CUDA_SUCCESS);
  const MappedRange mapped({1});
  EXPECT_EQ(refusal(managed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refusal(std::bit_cast<CUdeviceptr>(host)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refusal(mapped.at()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refusal(std::bit_cast<CUdeviceptr>(&host)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refusal(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(nullptr, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address), 1);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, mapped.at()), 0);
  {
    const WithTrait integrated("integrated");
    EXPECT_EQ(refusal(address), CUDA_ERROR_NOT_SUPPORTED);
  }
  ASSERT_EQ(cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(refusal(address), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(managed), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

TEST_F(CudaIpc, AProcessCannotOpenItsOwnHandle) {
  const CUdeviceptr address = allocate(kIpcPage);
  CUdeviceptr same = kUntouched;
  EXPECT_EQ(open(same, handle_of(address)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(same, kUntouched);
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "ipc"), 0U);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

TEST_F(CudaIpc, OpenedMemoryIsTheOwnersMemory) {
  const CUdeviceptr address = open_valid(other_.tell("offer 4194304 theirs"));
  EXPECT_EQ(get(address, 6), "theirs");
  // Two granules were offered, so 2097152 is the offset of the second.
  put_now(address + kGranule, "sync");
  EXPECT_EQ(other_.tell("read 2097152 4"), "sync");
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  void* pinned = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&pinned, kIpcPage), CUDA_SUCCESS);
  std::memcpy(pinned, "async", 5);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(address + 100, pinned, 5, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8Async(address + 105, '!', 3, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(other_.tell("read 100 8"), "async!!!");
  EXPECT_EQ(other_.tell("write 100 changed"), "0");
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(pinned, address + 100, 7, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(std::string(static_cast<char*>(pinned), 7), "changed");
  const CUdeviceptr own = allocate(kIpcPage);
  EXPECT_EQ(cuMemcpyDtoD_v2(own, address + 100, 7), CUDA_SUCCESS);
  EXPECT_EQ(get(own, 7), "changed");
  EXPECT_EQ(cuMemFree_v2(own), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(other_.tell("read 100 7"), "changed") << "the owner still has its memory";
}

TEST_F(CudaIpc, AnOpenedPartOfABlockEndsWithItsAllocation) {
  EXPECT_EQ(other_.tell("offer 600 first").size(), kHandleDigits);
  const CUdeviceptr address = open_valid(other_.tell("offer 600 second"));
  EXPECT_EQ(get(address, 6), "second");
  std::string text(601, '?');
  EXPECT_EQ(cuMemcpyDtoH_v2(text.data(), address, 601), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH_v2(text.data(), address, 600), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
}

TEST_F(CudaIpc, OpeningAgainIsCounted) {
  const std::string handle = other_.tell("offer 100 text");
  const CUdeviceptr address = open_valid(handle);
  EXPECT_EQ(open_valid(handle), address);
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "ipc"), 1U);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(get(address, 4), "text") << "opened twice and closed once, the memory is still open";
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "ipc"), 0U);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaIpc, OneContextOfEachGpuMayOpenAHandle) {
  const std::string handle = other_.tell("offer 100 text");
  const std::string next = other_.tell("offer 100 next");
  const CUdeviceptr address = open_valid(handle);
  CUdeviceptr refused = 0;
  CUcontext second = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(open(refused, handle), CUDA_ERROR_ALREADY_MAPPED);
  // The other context has memory of the same process and GPU open.
  EXPECT_EQ(open(refused, next), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxDestroy_v2(second), CUDA_SUCCESS);
  CUcontext elsewhere = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&elsewhere, 0, 1), CUDA_SUCCESS);
  const CUdeviceptr by_another_gpu = open_valid(handle);
  EXPECT_EQ(open_valid(handle), by_another_gpu) << "each context counts its own";
  EXPECT_NE(by_another_gpu, address);
  EXPECT_EQ(get(by_another_gpu, 4), "text");
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, by_another_gpu), 0);
  // Destroying a context closes the memory that it has opened.
  ASSERT_EQ(cuCtxDestroy_v2(elsewhere), CUDA_SUCCESS);
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "ipc"), 1U);
  EXPECT_EQ(cuIpcCloseMemHandle(by_another_gpu), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
}

TEST_F(CudaIpc, AnOpenedPointerReportsItsType) {
  const CUdeviceptr address = open_valid(other_.tell("offer 3000 text"));
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &bytes, address + 2999), CUDA_SUCCESS);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 3000U);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), 0);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, address), 0);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address), 0);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, address), 0);
  EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address), context_);
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 9), address);
  EXPECT_NE(attribute<std::uint64_t>(CU_POINTER_ATTRIBUTE_BUFFER_ID, address), 0U);
  const int on = 1;
  EXPECT_EQ(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_BUFFER_ID, address),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaIpc, AnOpenedPointerCannotBeFreedOrPassedOn) {
  const CUdeviceptr address = open_valid(other_.tell("offer 2097152 text"));
  const CUdeviceptr own = allocate(kIpcPage);
  int fd = -1;
  EXPECT_EQ(
      cuMemGetHandleForAddressRange(&fd, address, kGranule, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
      CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(fd, -1);
  EXPECT_EQ(refusal(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(address + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(own), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get(address, 4), "text");
  ASSERT_EQ(cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(own), CUDA_SUCCESS);
}

TEST_F(CudaIpc, OpeningNeedsTheFlagAndAContext) {
  const std::string handle = other_.tell("offer 100 text");
  CUdeviceptr address = 0;
  EXPECT_EQ(open(address, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(open(address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS | 2), CUDA_ERROR_INVALID_VALUE)
      << "an unknown flag";
  EXPECT_EQ(cuIpcOpenMemHandle_v2(nullptr, {}, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(open(address, handle), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
  EXPECT_EQ(address, 0U);
}

TEST_F(CudaIpc, ClosingWaitsForWorkOnTheMemory) {
  const CUdeviceptr address = open_valid(other_.tell("offer 100 text"));
  // A stream reads its delay when it is created.
  ::setenv("HBMWIRE_EMULATION_CUDA_DELAY_US", "100000", 1);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ::unsetenv("HBMWIRE_EMULATION_CUDA_DELAY_US");
  EXPECT_EQ(cuMemsetD8Async(address, 'x', 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_SUCCESS);
  EXPECT_EQ(other_.tell("read 0 4"), "xxxx");
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

TEST_F(CudaIpc, ForgedBytesOpenNothing) {
  const std::string good = other_.tell("offer 100 text");
  CUdeviceptr address = kUntouched;
  std::mt19937 random(20261123);
  for (int i = 0; i < 500; ++i) {
    std::string noise;
    for (std::size_t digit = 0; digit < kHandleDigits; ++digit)
      noise += "0123456789abcdef"[random() % 16];
    EXPECT_EQ(open(address, noise), CUDA_ERROR_INVALID_VALUE) << noise;
  }
  EXPECT_EQ(open(address, ""), CUDA_ERROR_INVALID_VALUE) << "nothing but zeros";
  for (std::size_t digit = 0; digit < good.size(); ++digit) {
    std::string wrong = good;
    wrong[digit] = wrong[digit] == '1' ? '2' : '1';
    const CUresult result = open(address, wrong);
    EXPECT_TRUE(result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_MAP_FAILED) << wrong;
  }
  EXPECT_EQ(address, kUntouched);
  EXPECT_EQ(live_objects(), "1 context 1 current ") << "those of SetUp() alone";
}

/// Makes a call that undoes an earlier one, and makes it again if it was made to fail. Returns
/// whether the first attempt succeeded.
template <typename Call>
bool undo(Call call) {
  if (call() == CUDA_SUCCESS) return true;
  EXPECT_EQ(call(), CUDA_SUCCESS);
  return false;
}

/// Makes memory and a handle of it, opens the peer's memory, copies from that, and undoes all.
/// Returns whether every call succeeded. At most one call is made to fail.
bool scene(const std::string& handle) {
  CUdeviceptr own = 0;
  CUdeviceptr theirs = 0;
  CUipcMemHandle made{};
  bool good = cuMemAlloc_v2(&own, 1000) == CUDA_SUCCESS;
  good = good && cuIpcGetMemHandle(&made, own) == CUDA_SUCCESS;
  const bool is_open = open(theirs, handle) == CUDA_SUCCESS;
  good = good && is_open && cuMemcpyDtoD_v2(own, theirs, 4) == CUDA_SUCCESS;
  if (is_open) good = undo([&] { return cuIpcCloseMemHandle(theirs); }) && good;
  if (own != 0) good = undo([&] { return cuMemFree_v2(own); }) && good;
  return good;
}

TEST_F(CudaIpc, NoFailingCallLeavesAnything) {
  const std::string handle = other_.tell("offer 100 text");
  for (long n = 0; n < 20; ++n) {
    hbmwire_cuda_fail_nth_call(n, EIO);
    const bool succeeded = scene(handle);
    const long calls = hbmwire_cuda_fail_nth_call(-1, 0);
    EXPECT_EQ(live_objects(), "1 context 1 current ") << "after call " << n;
    EXPECT_EQ(succeeded, calls <= n);
    if (!succeeded) continue;
    EXPECT_EQ(n, 6) << "the scene has six calls, and each has failed once";
    return;
  }
  FAIL() << "a call still failed in the last round";
}

}  // namespace
}  // namespace hbmwire::test
