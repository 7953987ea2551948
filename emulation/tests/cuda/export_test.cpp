// SPDX-License-Identifier: MIT
//
// cuMemGetHandleForAddressRange: the memory that can be exported, and the properties of the
// dma-buf.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "cuda_test_world.hpp"
#include "emulation/common/export_descriptor.hpp"
#include "emulation/cuda/testing_hooks.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kPage = 4096;

class CudaExport : public CudaTest {
 protected:
  static CUresult export_range(CUdeviceptr address, std::size_t bytes, int& fd,
                               unsigned long long flags = 0) {
    fd = -1;
    return cuMemGetHandleForAddressRange(&fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                         flags);
  }

  /// The result of an export; a dma-buf that it made is closed.
  static CUresult export_result(CUdeviceptr address, std::size_t bytes,
                                unsigned long long flags = 0) {
    int fd = -1;
    const CUresult result = export_range(address, bytes, fd, flags);
    if (fd >= 0) ::close(fd);
    return result;
  }
};

/// The bytes that an importer, such as the NIC, finds in a dma-buf.
std::string import_bytes(int fd, std::uint64_t offset, std::size_t bytes) {
  // The dma-buf's descriptor cannot be read, but its file can be opened anew.
  const int content = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY);
  emulation::ExportDescriptor descriptor;
  EXPECT_EQ(::pread(content, &descriptor, sizeof descriptor, 0), ssize_t{sizeof descriptor});
  EXPECT_EQ(descriptor.magic, emulation::ExportDescriptor::kMagic);
  std::vector<emulation::ExportSegment> segments(descriptor.segment_count);
  const std::size_t table = segments.size() * sizeof(emulation::ExportSegment);
  EXPECT_EQ(::pread(content, segments.data(), table, sizeof descriptor),
            static_cast<ssize_t>(table));
  // A single segment has no table.
  if (segments.empty()) segments.push_back({descriptor.offset_bytes, descriptor.length_bytes});
  ::close(content);
  const int file = ::open(descriptor.backing_path, O_RDONLY);
  std::string text;
  for (const auto& segment : segments) {
    for (; bytes > 0 && offset < segment.length_bytes; ++offset, --bytes) {
      char byte = 0;
      EXPECT_EQ(::pread(file, &byte, 1, static_cast<off_t>(segment.offset_bytes + offset)), 1);
      text += byte;
    }
    offset -= std::min(offset, segment.length_bytes);  // now counted from the next segment
  }
  ::close(file);
  return text;
}

TEST_F(CudaExport, ExportsConsistOfWholePages) {
  const CUdeviceptr first = allocate(512);
  const CUdeviceptr second = allocate(512);
  ASSERT_EQ(second % kPage, 512U) << "the second allocation of a block begins no page";
  EXPECT_EQ(export_result(second, kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(export_result(first, 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(export_result(first, 0), CUDA_ERROR_INVALID_VALUE);
  put_now(first, "neighbour");
  put_now(second, "bytes");
  int fd = -1;
  ASSERT_EQ(export_range(second / kPage * kPage, kPage, fd), CUDA_SUCCESS);
  EXPECT_EQ(import_bytes(fd, 512, 5), "bytes");
  EXPECT_EQ(import_bytes(fd, 0, 9), "neighbour") << "the page also has the other allocation";
  ::close(fd);
  EXPECT_EQ(export_result(first, 2 * kGranule), CUDA_ERROR_INVALID_VALUE) << "past the block";
  EXPECT_EQ(cuMemFree_v2(first), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(second), CUDA_SUCCESS);
}

TEST_F(CudaExport, TheCpuCannotReadTheDmabuf) {
  const CUdeviceptr address = allocate(kGranule);
  int fd = -1;
  ASSERT_EQ(export_range(address, kGranule, fd), CUDA_SUCCESS);

  struct stat status {};

  ASSERT_EQ(::fstat(fd, &status), 0);
  EXPECT_EQ(status.st_size, off_t{kGranule});
  EXPECT_EQ(::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
  char byte = 0;
  EXPECT_EQ(::read(fd, &byte, 1), -1);
  ::close(fd);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

TEST_F(CudaExport, AnExportKeepsFreedMemoryUntilItIsClosed) {
  const CUdeviceptr address = allocate(kGranule);
  put_now(address, "still there");
  int fd = -1;
  ASSERT_EQ(export_range(address, kGranule, fd), CUDA_SUCCESS);
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "export"), 1U);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
  const CUdeviceptr next = allocate(kGranule);
  put_now(next, "another's  ");
  EXPECT_EQ(import_bytes(fd, 0, 11), "still there");
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "physical"), 2U) << "the freed memory and the next";
  const int copy = ::dup(fd);
  ::close(fd);
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "export"), 1U);
  ::close(copy);
  EXPECT_EQ(hbmwire_cuda_live_objects(0, "export"), 0U);
  EXPECT_EQ(cuMemFree_v2(next), CUDA_SUCCESS);
}

TEST_F(CudaExport, AnExportOfTwoMappedPiecesHasTheBytesOfBoth) {
  // The two pieces of `range` get the free granules on both sides of `between`. Pieces that adjoin
  // in physical memory would be one segment.
  std::optional<MappedRange> before(std::in_place, std::vector{1U});
  const MappedRange between({1});
  before.reset();
  const MappedRange range({1, 1});
  put_now(range.at(kGranule - 4), "leftright");
  int fd = -1;
  ASSERT_EQ(export_range(range.at(kGranule - kPage), 2 * kPage, fd), CUDA_SUCCESS);
  EXPECT_EQ(import_bytes(fd, kPage - 4, 9), "leftright");
  ::close(fd);
  EXPECT_EQ(export_result(range.at(), 3 * kGranule), CUDA_ERROR_INVALID_VALUE)
      << "past the reservation";
}

TEST_F(CudaExport, VirtualMemoryMustBeMadeRdmaCapable) {
  const MappedRange range({1}, false);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, range.at()), 0);
  EXPECT_EQ(export_result(range.at(), kGranule), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(CudaExport, ManagedAndPinnedMemoryIsNotExported) {
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, kPage, 1), CUDA_SUCCESS);
  EXPECT_EQ(export_result(managed, kPage), CUDA_ERROR_NOT_SUPPORTED);
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&host, kPage), CUDA_SUCCESS);
  EXPECT_EQ(export_result(std::bit_cast<CUdeviceptr>(host), kPage), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(export_result(0x10000, kPage), CUDA_ERROR_INVALID_VALUE) << "no memory is there";
  EXPECT_EQ(cuMemFree_v2(managed), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(CudaExport, PinnedMemoryOfAnIntegratedGpuIsExported) {
  const WithTrait integrated("integrated");
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&host, kPage), CUDA_SUCCESS);
  std::memcpy(host, "by the CPU", 10);
  int fd = -1;
  ASSERT_EQ(export_range(std::bit_cast<CUdeviceptr>(host), kPage, fd), CUDA_SUCCESS);
  EXPECT_EQ(import_bytes(fd, 0, 10), "by the CPU");
  ::close(fd);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(CudaExport, ExportsNeedTheDriversSupportAndTheGpusContext) {
  const CUdeviceptr address = allocate(kPage);
  EXPECT_EQ(export_result(address, kPage, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE),
            CUDA_SUCCESS);
  EXPECT_EQ(export_result(address, kPage, 2), CUDA_ERROR_INVALID_VALUE) << "an unknown flag";
  {
    const WithTrait old("old_driver");
    EXPECT_EQ(export_result(address, kPage, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE),
              CUDA_ERROR_INVALID_VALUE);
  }
  {
    const WithTrait closed("closed_modules");
    EXPECT_EQ(export_result(address, kPage), CUDA_ERROR_NOT_SUPPORTED);
  }
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(export_result(address, kPage), CUDA_ERROR_INVALID_VALUE) << "another GPU's context";
  EXPECT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(export_result(address, kPage), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::test
