// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "emulation/cuda/abi/cuda.h"
#include "tests/support/open_descriptors.hpp"

namespace hbmwire::test {

inline constexpr std::uint64_t kGranule = 2ULL << 20U;

/// The primary context of GPU 0, current. Afterwards nothing is left, and no more descriptors are
/// open than before.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// cuMemAlloc; freed by the test.
  static CUdeviceptr allocate(std::size_t bytes);
  /// cuMemcpyHtoD, which may go on after it.
  static void put(CUdeviceptr to, const std::string& text);

  /// The same, complete on return.
  static void put_now(CUdeviceptr to, const std::string& text) {
    put(to, text);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }

  static std::string get(CUdeviceptr from, std::size_t bytes);

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

/// Reserved addresses with memory of GPU 0 behind them, of these numbers of granules each.
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

/// A driver that is otherwise, as long as this lives.
class WithTrait {
 public:
  explicit WithTrait(const char* name);
  ~WithTrait();
  WithTrait(const WithTrait&) = delete;
  WithTrait& operator=(const WithTrait&) = delete;

 private:
  const char* name_;
};

/// "" when the process holds nothing of GPU 0.
std::string live_objects();

}  // namespace hbmwire::test
