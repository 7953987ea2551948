// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/rocm/abi/hip.h"
#include "rocm_world.hpp"

namespace hbmwire::test {

/// Initialises HIP and chooses the first GPU.
class Hip : public RocmTest {
 protected:
  void SetUp() override {
    RocmTest::SetUp();
    ASSERT_EQ(hipInit(0), hipSuccess);
    ASSERT_EQ(hipSetDevice(0), hipSuccess);
  }
};

/// Memory of hipMalloc(), freed by hipFree().
class HipMemory {
 public:
  explicit HipMemory(std::size_t bytes) { EXPECT_EQ(hipMalloc(&pointer_, bytes), hipSuccess); }

  ~HipMemory() { EXPECT_EQ(hipFree(pointer_), hipSuccess); }

  HipMemory(const HipMemory&) = delete;
  HipMemory& operator=(const HipMemory&) = delete;

  [[nodiscard]] char* get() const { return static_cast<char*>(pointer_); }

 private:
  void* pointer_ = nullptr;
};

}  // namespace hbmwire::test
