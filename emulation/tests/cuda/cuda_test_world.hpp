// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "emulation/cuda/abi/cuda.h"
#include "tests/support/open_descriptors.hpp"

namespace hbmwire::test {

/// The unit of virtual memory. Blocks that small allocations share have the same size.
inline constexpr std::uint64_t kGranule = 2ULL << 20U;

/// Makes the primary context of GPU 0 current. At the end no objects may be left and no more
/// descriptors may be open than before.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// cuMemAlloc. The test frees it.
  static CUdeviceptr allocate(std::size_t bytes);
  /// cuMemcpyHtoD, which may return before the copy is complete.
  static void put(CUdeviceptr to, const std::string& text);

  /// put() and a wait for the copy.
  static void put_now(CUdeviceptr to, const std::string& text) {
    put(to, text);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }

  /// cuMemcpyDtoH.
  static std::string get(CUdeviceptr from, std::size_t bytes);

  /// cuPointerGetAttribute, which must succeed.
  template <typename T>
  static T attribute(CUpointer_attribute which, CUdeviceptr address) {
    T value{};
    EXPECT_EQ(cuPointerGetAttribute(&value, which, address), CUDA_SUCCESS) << which;
    return value;
  }

  CUcontext context_ = nullptr;

 private:
  int descriptors_ = 0;
};

/// Reserved addresses, onto which physical memory of GPU 0 is mapped: one piece for each element of
/// `granules`, which is the piece's length in granules.
class MappedRange {
 public:
  explicit MappedRange(const std::vector<unsigned>& granules, bool rdma_capable = true);
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  [[nodiscard]] CUdeviceptr at(std::uint64_t offset = 0) const { return base_ + offset; }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  CUdeviceptr base_ = 0;
  std::size_t bytes_ = 0;
};

/// Switches a trait of the driver on while this object lives.
class WithTrait {
 public:
  explicit WithTrait(const char* name);
  ~WithTrait();
  WithTrait(const WithTrait&) = delete;
  WithTrait& operator=(const WithTrait&) = delete;

 private:
  const char* name_;
};

/// The objects that the process has on GPU 0 in words, such as "1 context 1 current "; "" if there
/// are none.
std::string live_objects();

}  // namespace hbmwire::test
