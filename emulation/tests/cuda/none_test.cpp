// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "emulation/cuda/abi/cuda.h"

namespace hbmwire::test {
namespace {

TEST(CudaWithoutGpus, InitFailsButTheVersionIsKnown) {
  EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
  int count = 7;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  int version = 0;
  EXPECT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, 12080);  // CUDA 12.8
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc_v2(&address, 1), CUDA_ERROR_NOT_INITIALIZED);
}

}  // namespace
}  // namespace hbmwire::test
