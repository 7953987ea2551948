// SPDX-License-Identifier: MIT
#include "cuda_test_world.hpp"

#include "emulation/cuda/testing_hooks.hpp"

namespace hbmwire::test {

void CudaTest::SetUp() {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  // The descriptors that a GPU's first context opens stay open. GPU 1 gets a context here, so that
  // they do not count as left by the test.
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
  descriptors_ = open_descriptors();
}

void CudaTest::TearDown() {
  EXPECT_EQ(open_descriptors(), descriptors_);
  EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(live_objects(), "");
}

CUdeviceptr CudaTest::allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
  return address;
}

void CudaTest::put(CUdeviceptr to, const std::string& text) {
  EXPECT_EQ(cuMemcpyHtoD_v2(to, text.data(), text.size()), CUDA_SUCCESS);
}

std::string CudaTest::get(CUdeviceptr from, std::size_t bytes) {
  std::string text(bytes, '?');
  EXPECT_EQ(cuMemcpyDtoH_v2(text.data(), from, bytes), CUDA_SUCCESS);
  return text;
}

MappedRange::MappedRange(const std::vector<unsigned>& granules, bool rdma_capable) {
  for (const unsigned count : granules) bytes_ += count * kGranule;
  EXPECT_EQ(cuMemAddressReserve(&base_, bytes_, 0, 0, 0), CUDA_SUCCESS);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.allocFlags.gpuDirectRDMACapable = rdma_capable ? 1 : 0;
  std::uint64_t at = base_;
  for (const unsigned count : granules) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, count * kGranule, &properties, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(at, count * kGranule, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);  // the mapping keeps the memory
    at += count * kGranule;
  }
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_EQ(cuMemSetAccess(base_, bytes_, &access, 1), CUDA_SUCCESS);
}

MappedRange::~MappedRange() {
  EXPECT_EQ(cuMemUnmap(base_, bytes_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base_, bytes_), CUDA_SUCCESS);
}

WithTrait::WithTrait(const char* name) : name_(name) {
  EXPECT_EQ(hbmwire_cuda_set_trait(name, 1), 0);
}

WithTrait::~WithTrait() { hbmwire_cuda_set_trait(name_, 0); }

std::string live_objects() {
  std::string text;
  for (const char* kind :
       {"allocation", "host", "managed", "mapping", "physical", "export", "share", "ipc", "context",
        "stream", "reservation", "host_mapping", "event", "current"}) {
    if (const unsigned long count = hbmwire_cuda_live_objects(0, kind); count != 0)
      text += std::to_string(count) + " " + kind + " ";
  }
  return text;
}

}  // namespace hbmwire::test
