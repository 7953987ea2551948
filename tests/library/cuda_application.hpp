// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hbmwire::test {

/// A program that uses CUDA by itself, by the driver's own calls: with the primary context of a GPU
/// current for as long as this lives; what it allocated is freed then. Throws when a call fails.
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

  /// Addresses with memory of these numbers of granules (2 MiB) behind them, one after the other.
  std::uint64_t map(const std::vector<unsigned>& granules, bool rdma_capable = true);

  /// cuMemcpyHtoD.
  static void write(std::uint64_t address, std::span<const std::byte> bytes);

  [[nodiscard]] bool is_current() const;
  static bool has_current();
  /// Whether the GPU has a primary context.
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

/// An emulated driver that is otherwise (HBMWIRE_EMULATION_CUDA), as long as this lives.
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
