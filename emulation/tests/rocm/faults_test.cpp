// SPDX-License-Identifier: MIT
//
// Fail-the-n-th-call sweeps: no objects are left, whichever call fails. Each round of a sweep
// checks that, as RocmTest::TearDown does.
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "emulation/rocm/abi/hip.h"
#include "emulation/rocm/testing_hooks.hpp"
#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

class RocmFaults : public RocmTest {
 protected:
  void TearDown() override {
    hbmwire_rocm_fail_nth_call(-1, 0);
    RocmTest::TearDown();
  }

  // Runs the scene with the n-th call failing, for every n until no call fails. HIP repeats a
  // failed call that frees memory in ROCr, so some failures do not show.
  static void sweep(const std::function<bool()>& scene) {
    for (long n = 0; n < 300; ++n) {  // more rounds than a scene has calls
      hbmwire_rocm_fail_nth_call(n, EIO);
      const bool succeeded = scene();
      const long calls = hbmwire_rocm_fail_nth_call(-1, 0);
      for (const char* kind : {"allocation", "export", "host_allocation", "lock", "signal"})
        EXPECT_EQ(hbmwire_rocm_live_objects(0, kind), 0U) << kind << " left after call " << n;
      if (calls <= n) {
        EXPECT_TRUE(succeeded) << "no call was made to fail";
        EXPECT_GT(n, 5) << "the scene has more calls";
        return;
      }
    }
    FAIL() << "a call still failed in the last round";
  }
};

/// Makes a call that frees something, and makes it again if it was made to fail; a failed call had
/// no effect. Returns whether the first attempt succeeded.
template <class Call>
bool give_back(Call call) {
  if (call() == 0) return true;
  EXPECT_EQ(call(), 0);
  return false;
}

/// Makes memory, a stream and an export, copies, and frees all. Returns whether every call
/// succeeded.
bool hip_scene() {
  void* device = nullptr;
  void* host = nullptr;
  hipStream_t stream = nullptr;
  int fd = -1;
  bool good = hipMalloc(&device, 5000) == hipSuccess;
  good = hipHostMalloc(&host, 5000, 0) == hipSuccess && good;
  good = hipStreamCreate(&stream) == hipSuccess && good;
  if (good) {
    char on_heap[100] = {};
    good = hipMemset(device, 3, 5000) == hipSuccess && good;
    good = hipMemcpyAsync(host, device, 5000, hipMemcpyDeviceToHost, stream) == hipSuccess && good;
    good = hipStreamSynchronize(stream) == hipSuccess && good;
    good = hipMemcpy(device, on_heap, 100, hipMemcpyHostToDevice) == hipSuccess && good;
    good = hipMemGetHandleForAddressRange(&fd, device, 5000, hipMemRangeHandleTypeDmaBufFd, 0) ==
               hipSuccess &&
           good;
  }
  if (fd >= 0) ::close(fd);
  if (stream != nullptr) good = give_back([&] { return hipStreamDestroy(stream); }) && good;
  if (host != nullptr) good = give_back([&] { return hipHostFree(host); }) && good;
  if (device != nullptr) good = give_back([&] { return hipFree(device); }) && good;
  return good;
}

TEST_F(RocmFaults, NoFailingCallLeavesAnything) {
  // HIP is initialised by its first call, so the sweep does not count the calls of that.
  ASSERT_TRUE(hip_scene());
  sweep(hip_scene);
}

TEST_F(RocmFaults, EachLibraryFailsInItsOwnConvention) {
  void* pointer = nullptr;
  hbmwire_rocm_fail_nth_call(0, ENOMEM);
  EXPECT_EQ(hsa_amd_memory_pool_allocate(gpu_pools_[0], 1, 0, &pointer),
            HSA_STATUS_ERROR_OUT_OF_RESOURCES);
  hbmwire_rocm_fail_nth_call(0, EINVAL);
  EXPECT_EQ(hsa_amd_memory_pool_free(nullptr), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  hbmwire_rocm_fail_nth_call(0, EOPNOTSUPP);
  int fd = -1;
  std::uint64_t offset = 0;
  EXPECT_EQ(hsa_amd_portable_export_dmabuf(&fd, 1, &fd, &offset), HSA_STATUS_ERROR_NOT_SUPPORTED);
  hbmwire_rocm_fail_nth_call(0, ENOMEM);
  EXPECT_EQ(hipMalloc(&pointer, 1), hipErrorOutOfMemory);
  EXPECT_EQ(hipGetLastError(), hipErrorOutOfMemory);
  EXPECT_EQ(hipGetLastError(), hipSuccess) << "asking forgets it";
  hbmwire_rocm_fail_nth_call(0, EIO);
  EXPECT_EQ(hipFree(nullptr), hipErrorUnknown);
}

}  // namespace
}  // namespace hbmwire::test
