// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulation/rocm/abi/hsa.h"

namespace hbmwire::test {

inline constexpr std::uint64_t kBlock = 2ULL << 20;  ///< what ROCr asks the driver for at least

/// Two emulated GPUs, ROCr initialized. Afterwards the process has nothing of them left.
class RocmTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  hsa_agent_t host_{};
  std::vector<hsa_agent_t> gpus_;
  std::vector<hsa_amd_memory_pool_t> gpu_pools_;
  hsa_amd_memory_pool_t host_pool_{};
};

/// Of a pool; freed in the end.
class PoolMemory {
 public:
  PoolMemory(hsa_amd_memory_pool_t pool, std::size_t bytes);
  ~PoolMemory();
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;

  [[nodiscard]] char* get() const { return static_cast<char*>(pointer_); }

  /// Before its end.
  void free();

 private:
  void* pointer_ = nullptr;
};

/// Whether the CPU finds a byte there. Asked of the kernel, in this process: a child by fork(2)
/// finds a GPU's memory nowhere.
bool cpu_reaches(const void* address);

/// What hsa_amd_pointer_info() says.
hsa_amd_pointer_info_t info_of(const void* pointer);

/// A copy by ROCr, complete on return: what its signal says then.
hsa_signal_value_t copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                        std::size_t bytes);

/// The same between a GPU and this process's own memory, which is locked meanwhile.
void write_gpu(hsa_agent_t gpu, hsa_agent_t host, void* to, const void* from, std::size_t bytes);
void read_gpu(hsa_agent_t gpu, hsa_agent_t host, void* to, const void* from, std::size_t bytes);

/// Opens an export as an importer does: the descriptor's file, mapped at the exported range.
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

/// Another process, begun afresh, that has taken `kMost` bytes of the first GPU, or could not; it
/// lives until its end here.
class OtherProcess {
 public:
  static constexpr std::size_t kMost = 150ULL << 30;  ///< of 192: there is room for one of these

  OtherProcess();
  ~OtherProcess();
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  [[nodiscard]] bool took() const { return took_; }

  void kill();

 private:
  int pid_ = -1;
  int to_child_ = -1;
  bool took_ = false;
};

}  // namespace hbmwire::test
