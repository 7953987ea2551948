// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulation/rocm/abi/hsa.h"

namespace hbmwire::test {

/// ROCr takes memory from a GPU in blocks of this size. Small allocations share one.
inline constexpr std::uint64_t kBlock = 2ULL << 20;

/// Two emulated GPUs with ROCr initialised. At the end the process must have no objects on them.
class RocmTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  hsa_agent_t host_{};  ///< the CPU
  std::vector<hsa_agent_t> gpus_;
  std::vector<hsa_amd_memory_pool_t> gpu_pools_;
  hsa_amd_memory_pool_t host_pool_{};
};

/// Memory of a pool, freed at the end.
class PoolMemory {
 public:
  PoolMemory(hsa_amd_memory_pool_t pool, std::size_t bytes);
  ~PoolMemory();
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;

  [[nodiscard]] char* get() const { return static_cast<char*>(pointer_); }

  /// Frees it early.
  void free();

 private:
  void* pointer_ = nullptr;
};

/// Whether the CPU can read a byte there. It asks the kernel in this process, because a child of
/// fork(2) does not have a GPU's memory.
bool cpu_reaches(const void* address);

/// The result of hsa_amd_pointer_info().
hsa_amd_pointer_info_t info_of(const void* pointer);

/// A copy by ROCr, complete on return. Returns the value of its signal.
hsa_signal_value_t copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                        std::size_t bytes);

/// Copy between a GPU and this process's own memory, which is locked meanwhile.
void write_gpu(hsa_agent_t gpu, hsa_agent_t host, void* to, const void* from, std::size_t bytes);
void read_gpu(hsa_agent_t gpu, hsa_agent_t host, void* to, const void* from, std::size_t bytes);

/// Opens an export as an importer does: maps the exported range of the descriptor's file.
class Imported {
 public:
  explicit Imported(int dmabuf);
  ~Imported();
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;

  [[nodiscard]] char* data() const { return data_; }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Another, newly started process that tries to allocate `kMost` bytes of the first GPU. It lives
/// as long as this object.
class OtherProcess {
 public:
  /// A GPU has 192 GiB, so only one process can have this much.
  static constexpr std::size_t kMost = 150ULL << 30;

  OtherProcess();
  ~OtherProcess();
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  /// Whether it got the memory.
  [[nodiscard]] bool took() const { return took_; }

  /// Ends it by SIGKILL, and waits for that.
  void kill();

 private:
  int pid_ = -1;
  int to_child_ = -1;
  bool took_ = false;
};

}  // namespace hbmwire::test
