// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hbmwire::test {

/// A program that uses CUDA directly through the driver API. The primary context of a GPU is
/// current while the object lives; the destructor frees its allocations. Throws if a call fails.
class CudaApplication {
 public:
  explicit CudaApplication(int device);
  ~CudaApplication();
  CudaApplication(const CudaApplication&) = delete;
  CudaApplication& operator=(const CudaApplication&) = delete;

  std::uint64_t allocate(std::size_t bytes);
  std::uint64_t allocate_managed(std::size_t bytes);
  std::uint64_t allocate_host(std::size_t bytes);
  void free(std::uint64_t address);

  /// Maps memory of these numbers of granules (2 MiB), one after the other. Returns the address.
  std::uint64_t map(const std::vector<unsigned>& granules, bool rdma_capable = true);

  /// cuMemcpyHtoD.
  static void write(std::uint64_t address, std::span<const std::byte> bytes);

  [[nodiscard]] bool is_current() const;
  static bool has_current();
  /// Whether the GPU has an active primary context.
  static bool has_context(int device);

 private:
  struct Mapping {
    std::uint64_t address;
    std::size_t bytes;
  };

  int device_;
  void* context_ = nullptr;
  std::vector<std::uint64_t> allocations_;
  std::vector<void*> host_;
  std::vector<Mapping> mappings_;
};

/// Changes the emulated driver (HBMWIRE_EMULATION_CUDA) while it lives.
class CudaTrait {
 public:
  explicit CudaTrait(const char* name);
  ~CudaTrait();
  CudaTrait(const CudaTrait&) = delete;
  CudaTrait& operator=(const CudaTrait&) = delete;

 private:
  const char* name_;
};

}  // namespace hbmwire::test
