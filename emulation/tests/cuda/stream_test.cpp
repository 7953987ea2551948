// SPDX-License-Identifier: MIT
//
// Which work is complete when a call returns, and which goes on.
#include <cstdlib>
#include <cstring>

#include "cuda_test_world.hpp"

namespace hbmwire::test {
namespace {

/// Each job of a stream begins 20 ms late. So a job that a call does not wait for is not done when
/// the call returns.
class CudaStream : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ::setenv("HBMWIRE_EMULATION_CUDA_DELAY_US", "20000", 1);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    address_ = allocate(1 << 20U);
    ASSERT_EQ(cuMemAllocHost_v2(&pinned_, 100), CUDA_SUCCESS);
    std::memcpy(pinned_, "pinned", 6);
  }

  void TearDown() override {
    ::unsetenv("HBMWIRE_EMULATION_CUDA_DELAY_US");
    EXPECT_EQ(cuMemFreeHost(pinned_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(address_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
    CudaTest::TearDown();
  }

  /// Whether the default stream still has work.
  [[nodiscard]] static bool is_busy() { return cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY; }

  CUstream stream_ = nullptr;
  CUdeviceptr address_ = 0;
  void* pinned_ = nullptr;
};

TEST_F(CudaStream, PinnedMemoryIsCopiedLater) {
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(address_, pinned_, 6, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  std::memcpy(pinned_, "change", 6);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(get(address_, 6), "change") << "the copy reads the memory when it runs";
}

TEST_F(CudaStream, CopiesAreDoneWithPageableMemoryOnReturn) {
  std::string text = "before";
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(address_, text.data(), 6, stream_), CUDA_SUCCESS);
  text = "after.";
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(text.data(), address_, 6, stream_), CUDA_SUCCESS);
  EXPECT_EQ(text, "before") << "a copy into pageable memory is complete on return";
}

TEST_F(CudaStream, AShortCopyIsAsynchronousWithoutSyncMemops) {
  put(address_, "short");
  EXPECT_TRUE(is_busy());
  EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  // Any address of the allocation sets the attribute for all of it.
  const int on = 1;
  ASSERT_EQ(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address_ + 5),
            CUDA_SUCCESS);
  put(address_, "short");
  EXPECT_FALSE(is_busy());
  EXPECT_EQ(cuMemsetD8_v2(address_, 'x', 5), CUDA_SUCCESS);
  EXPECT_FALSE(is_busy());
}

TEST_F(CudaStream, TheContextsFlagMakesAShortCopySynchronous) {
  ASSERT_EQ(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS), CUDA_SUCCESS);
  put(address_, "short");
  EXPECT_FALSE(is_busy());
  EXPECT_EQ(cuCtxSetFlags(0), CUDA_SUCCESS);
}

TEST_F(CudaStream, EventsAndHostFunctionsRunInOrder) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS) << "an event that was never recorded is complete";
  std::string text(6, '?');

  struct Move {
    void* to;
    const void* from;
  } move{text.data(), pinned_};

  ASSERT_EQ(cuMemsetD8Async(address_, 'z', 6, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned_, address_, 6, stream_), CUDA_SUCCESS);
  const auto run = [](void* data) {
    const auto& job = *static_cast<Move*>(data);
    std::memcpy(job.to, job.from, 6);
  };
  ASSERT_EQ(cuLaunchHostFunc(stream_, run, &move), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(text, "zzzzzz");
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CudaStream, FreeingWaitsForUsersOfTheMemory) {
  const CUdeviceptr other = allocate(100);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(other, pinned_, 6, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(other), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::test
