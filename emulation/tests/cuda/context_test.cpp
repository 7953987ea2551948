// SPDX-License-Identifier: MIT
#include <thread>

#include "cuda_test_world.hpp"
#include "emulation/cuda/testing_hooks.hpp"

namespace hbmwire::test {
namespace {

class CudaContext : public CudaTest {};

CUcontext current() {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

TEST_F(CudaContext, EveryRetainReturnsTheSamePrimaryContext) {
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
  EXPECT_EQ(again, context_);
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  EXPECT_NE(other, context_);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  unsigned flags = 0;
  int active = -1;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
}

TEST_F(CudaContext, EachThreadHasAStackOfContexts) {
  EXPECT_EQ(current(), context_);
  CUcontext second = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&second, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(current(), second);
  std::thread([&] {
    EXPECT_EQ(current(), nullptr);
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, 1), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(current(), context_);
  }).join();
  CUcontext popped = nullptr;
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, second);
  EXPECT_EQ(current(), context_);
  EXPECT_EQ(cuCtxDestroy_v2(second), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPushCurrent_v2(second), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxDestroy_v2(context_), CUDA_ERROR_INVALID_CONTEXT)
      << "a primary context is released, not destroyed";
}

TEST_F(CudaContext, MemoryAndStreamsEndWithTheirContext) {
  CUcontext own = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&own, 0, 0), CUDA_SUCCESS);
  const CUdeviceptr address = allocate(100);
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy_v2(own), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CudaContext, AnInjectedErrnoBecomesACuResult) {
  // Call 0 is the allocation, call 1 the first attempt to free it.
  hbmwire_cuda_fail_nth_call(1, ENOMEM);
  CUdeviceptr address = allocate(100);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(hbmwire_cuda_fail_nth_call(-1, 0), 2) << "the calls since the last use of the hook";
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::test
