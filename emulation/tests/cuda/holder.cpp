// SPDX-License-Identifier: MIT
//
// A program that allocates 64 MiB of GPU 0, says so, and waits to be killed.
#include <unistd.h>

#include <cstdio>

#include "emulation/cuda/abi/cuda.h"

int main() {
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  const bool ready =
      cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
      cuCtxPushCurrent_v2(context) == CUDA_SUCCESS &&
      cuMemAlloc_v2(&address, 64U << 20U) == CUDA_SUCCESS &&
      cuMemsetD8_v2(address, 1, 64U << 20U) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS;
  if (!ready) return 1;
  std::puts("has its memory");
  std::fflush(stdout);
  ::pause();
  return 0;
}
