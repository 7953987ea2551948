// SPDX-License-Identifier: MIT
#include <bit>

#include "cuda_test_world.hpp"

namespace hbmwire::test {
namespace {

class CudaVirtualMemory : public CudaTest {};

TEST_F(CudaVirtualMemory, MappedPiecesAreOneRunOfAddresses) {
  const MappedRange range({1, 2, 1});
  const std::string text = "over the boundary";
  put(range.at(kGranule - 5), text);
  EXPECT_EQ(get(range.at(kGranule - 5), text.size()), text);
}

TEST_F(CudaVirtualMemory, AnAddressRangeIsOneMappingAndAPointersRangeTheReservation) {
  const MappedRange range({1, 2});
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  ASSERT_EQ(cuMemGetAddressRange_v2(&base, &bytes, range.at(kGranule + 7)), CUDA_SUCCESS);
  EXPECT_EQ(base, range.at(kGranule));
  EXPECT_EQ(bytes, 2 * kGranule);
  // A pointer's range is the whole reservation.
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, range.at(kGranule)),
            range.at());
  EXPECT_EQ(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, range.at()), range.bytes());
  EXPECT_NE(attribute<std::uint64_t>(CU_POINTER_ATTRIBUTE_BUFFER_ID, range.at()),
            attribute<std::uint64_t>(CU_POINTER_ATTRIBUTE_BUFFER_ID, range.at(kGranule)));
  const int on = 1;
  EXPECT_EQ(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range.at()),
            CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(CudaVirtualMemory, ReservationsAndMappingsNeedWholeFreeGranules) {
  CUdeviceptr base = 0;
  EXPECT_EQ(cuMemAddressReserve(&base, kGranule + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&base, 4 * kGranule, 3, 0, 0), CUDA_ERROR_INVALID_VALUE)
      << "an alignment is a power of two";
  ASSERT_EQ(cuMemAddressReserve(&base, 4 * kGranule, 16 * kGranule, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(base % (16 * kGranule), 0U);
  int mapped = 7;
  EXPECT_EQ(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base), CUDA_SUCCESS);
  EXPECT_EQ(mapped, 0);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  std::size_t granularity = 0;
  EXPECT_EQ(cuMemGetAllocationGranularity(&granularity, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(granularity, kGranule);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kGranule - 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemCreate(&handle, 2 * kGranule, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(base + 3 * kGranule, 2 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE)
      << "past the reservation";
  EXPECT_EQ(cuMemMap(base, 2 * kGranule, kGranule, handle, 0), CUDA_ERROR_INVALID_VALUE)
      << "an offset into the memory";
  ASSERT_EQ(cuMemMap(base, 2 * kGranule, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(base + kGranule, 2 * kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE)
      << "mapped already";
  char byte = 0;
  EXPECT_EQ(cuMemcpyDtoH_v2(&byte, base, 1), CUDA_ERROR_INVALID_VALUE) << "no access is set";
  EXPECT_EQ(cuMemAddressFree(base, 4 * kGranule), CUDA_ERROR_INVALID_VALUE) << "mapped";
  EXPECT_EQ(cuMemUnmap(base, kGranule), CUDA_ERROR_INVALID_VALUE) << "a part of a mapping";
  EXPECT_EQ(cuMemUnmap(base, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(base, 4 * kGranule), CUDA_SUCCESS);
}

TEST_F(CudaVirtualMemory, AHandleMappedTwiceIsTheSameMemory) {
  const MappedRange one({1});
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&handle, std::bit_cast<void*>(one.at(5))), CUDA_SUCCESS);
  CUdeviceptr alias = 0;
  ASSERT_EQ(cuMemAddressReserve(&alias, kGranule, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(alias, kGranule, 0, handle, 0), CUDA_SUCCESS);
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(alias, kGranule, &access, 1), CUDA_SUCCESS);
  put(one.at(100), "shared");
  EXPECT_EQ(get(alias + 100, 6), "shared");
  EXPECT_EQ(cuMemUnmap(alias, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(alias, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  const CUdeviceptr plain = allocate(100);
  EXPECT_EQ(cuMemRetainAllocationHandle(&handle, std::bit_cast<void*>(plain)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(plain), CUDA_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::test
