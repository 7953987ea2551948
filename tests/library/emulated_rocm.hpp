// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

// The emulated libraries of ROCm as an application uses them, and functions for tests.
namespace hbmwire::test {

/// The number of objects of a kind that this process has ("allocation", "range", "export" of a GPU;
/// "host_allocation", "lock", "signal").
unsigned long rocm_live_objects(unsigned gpu, const char* kind);

/// An application's use of HIP. A failed call fails the test.
class Rocm {
 public:
  Rocm();

  [[nodiscard]] void* hip_malloc(int device, std::size_t bytes) const;
  [[nodiscard]] void* hip_host_malloc(std::size_t bytes) const;
  [[nodiscard]] void* hip_malloc_managed(std::size_t bytes) const;
  void hip_free(void* pointer) const;
  void hip_host_free(void* pointer) const;
  void hip_host_register(void* pointer, std::size_t bytes) const;
  void hip_host_unregister(void* pointer) const;
  void hip_memset(void* pointer, int value, std::size_t bytes) const;
  [[nodiscard]] std::vector<std::byte> hip_read(const void* pointer, std::size_t bytes) const;

  /// hipMemGetHandleForAddressRange(): returns a dma-buf.
  [[nodiscard]] int hip_handle(void* pointer, std::size_t bytes) const;

 private:
  template <class Function>
  Function* function(const char* name) const;

  void* library_;
};

}  // namespace hbmwire::test
