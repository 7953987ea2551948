// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <vector>

#include "cuda_test_world.hpp"

namespace hbmwire::test {
namespace {

class CudaMemory : public CudaTest {};

using CudaMemoryDeathTest = CudaMemory;

TEST_F(CudaMemory, SmallAllocationsShareBlocksAndPages) {
  std::vector<CUdeviceptr> all;
  for (int i = 0; i < 10; ++i) all.push_back(allocate(700));
  std::ranges::sort(all);
  for (const CUdeviceptr address : all) {
    EXPECT_EQ(address % 512, 0U);
    EXPECT_EQ(address / kGranule, all.front() / kGranule);
  }
  EXPECT_EQ(all[1] - all[0], 1024U) << "700 bytes in whole pieces of 512";
  for (const CUdeviceptr address : all) EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(all[0]), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaMemory, AllocationsDoNotShareBytes) {
  const CUdeviceptr one = allocate(5);
  const CUdeviceptr two = allocate(3 << 20U);
  const CUdeviceptr over_the_boundary = two + kGranule - 3;
  put(one, "first");
  put(over_the_boundary, "second");
  EXPECT_EQ(get(one, 5), "first");
  EXPECT_EQ(get(over_the_boundary, 6), "second");
  EXPECT_EQ(cuMemcpyHtoD_v2(one + 1, "12345", 5), CUDA_ERROR_INVALID_VALUE) << "past the end";
  EXPECT_EQ(cuMemcpyDtoD_v2(two, one, 5), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(get(two, 5), "first");
  EXPECT_EQ(cuMemsetD8_v2(two, 'x', 3), CUDA_SUCCESS);
  EXPECT_EQ(get(two, 5), "xxxst");
  EXPECT_EQ(cuMemFree_v2(one), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(two), CUDA_SUCCESS);
}

TEST_F(CudaMemoryDeathTest, TheCpuFaultsOnGpuMemory) {
  const CUdeviceptr address = allocate(100);
  EXPECT_DEATH(*std::bit_cast<volatile char*>(address) = 1, "");
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

TEST_F(CudaMemory, FreeMemoryIsCountedAndRunsOut) {
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(total, 80ULL << 30U);
  const CUdeviceptr address = allocate(free - kGranule);
  std::size_t left = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
  EXPECT_EQ(left, kGranule);
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAlloc_v2(&more, kGranule + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
  EXPECT_EQ(left, free);
  EXPECT_EQ(cuMemAlloc_v2(&more, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaMemory, ABufferIdIsNeverUsedTwice) {
  std::set<std::uint64_t> ids;
  std::set<CUdeviceptr> addresses;
  for (int i = 0; i < 20; ++i) {
    const CUdeviceptr address = allocate(3 << 20U);
    addresses.insert(address);
    ids.insert(attribute<std::uint64_t>(CU_POINTER_ATTRIBUTE_BUFFER_ID, address + 1000));
    EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
  }
  EXPECT_EQ(ids.size(), 20U);
  EXPECT_LT(addresses.size(), 20U) << "no address came again, so nothing was tested";
}

TEST_F(CudaMemory, PointersReportTheirType) {
  const CUdeviceptr address = allocate(1000);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 5), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), 0);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, address), 0);
  EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address), context_);
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 5), address);
  EXPECT_EQ(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address), 1000U);
  void* host = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
            CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &bytes, address + 999), CUDA_SUCCESS);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 1000U);
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &bytes, address + 1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

TEST_F(CudaMemory, AListOfAttributesIsZeroForForeignPointers) {
  const int local = 0;
  const auto address = std::bit_cast<CUdeviceptr>(&local);
  int type = 9;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
            CUDA_ERROR_INVALID_VALUE);
  std::uint64_t id = 9;
  std::array attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
  std::array<void*, 2> data{&type, &id};
  EXPECT_EQ(cuPointerGetAttributes(2, attributes.data(), data.data(), address), CUDA_SUCCESS);
  EXPECT_EQ(type, 0);
  EXPECT_EQ(id, 0U);
}

TEST_F(CudaMemory, HostMemoryOfTheProgramIsRegisteredOnce) {
  std::vector<char> host(10'000, 'p');
  const auto address = std::bit_cast<CUdeviceptr>(host.data());
  EXPECT_EQ(cuMemHostRegister_v2(nullptr, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(host.data(), 0, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemHostRegister_v2(host.data(), host.size(), CU_MEMHOSTREGISTER_PORTABLE),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister_v2(host.data() + 9999, 10, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
      << "it shares one byte with registered memory";
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 9999), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(cuMemFreeHost(host.data()), CUDA_ERROR_INVALID_VALUE)
      << "cuMemAllocHost did not make it";
  EXPECT_EQ(cuMemHostUnregister(host.data() + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(host.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(host.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  void* made = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&made, 100), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister_v2(made, 100, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemFreeHost(made), CUDA_SUCCESS);
}

TEST_F(CudaMemory, TheCpuAccessesHostAndManagedMemory) {
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&host, 100), CUDA_SUCCESS);
  *static_cast<char*>(host) = 'h';
  const auto host_address = std::bit_cast<CUdeviceptr>(host);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host_address), CU_MEMORYTYPE_HOST);
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 100, 1), CUDA_SUCCESS);
  *std::bit_cast<char*>(managed) = 'm';
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), 1);
  EXPECT_EQ(get(managed, 1), "m");
  EXPECT_EQ(cuMemcpy(managed, host_address, 1), CUDA_SUCCESS);
  EXPECT_EQ(*std::bit_cast<char*>(managed), 'h');
  EXPECT_EQ(cuMemFree_v2(host_address), CUDA_ERROR_INVALID_VALUE) << "cuMemFreeHost frees it";
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(managed), CUDA_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::test
