// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "emulation/rocm/hsa/devices.hpp"

namespace hbmwire::emulation::rocm {

/// A range of GPU memory that was allocated from the driver, with addresses of the same length. The
/// CPU cannot access them before show().
class Block {
 public:
  /// Returns null if there is no memory, or no room for addresses.
  static std::shared_ptr<Block> take(Device& device, std::uint64_t bytes);

  /// Attaches memory that another process shares. Returns null and sets `error`: -ENOENT, -ENOMEM
  /// or -EBUSY.
  static std::shared_ptr<Block> attach(Device& device, const ShareKey& key, int& error);

  Block(GpuMemory& memory, const GpuMemory::Range& range, std::uint64_t base)
      : memory_(memory), range_(range), base_(base) {}

  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] GpuMemory& memory() const { return memory_; }

  [[nodiscard]] const GpuMemory::Range& range() const { return range_; }

  [[nodiscard]] std::uint64_t base() const { return base_; }

  /// Maps whole pages of the block for the CPU, as through a large BAR. Returns false if there is
  /// no room for another mapping.
  bool show(std::uint64_t address, std::uint64_t bytes);

  /// Removes the mapping of show().
  static void hide(std::uint64_t address, std::uint64_t bytes);

 private:
  GpuMemory& memory_;
  GpuMemory::Range range_;
  std::uint64_t base_;
  std::optional<GpuMemory::Attachment> attachment_;  // set if it belongs to another process
};

/// A part of a block. As in ROCr, small allocations are cut out of blocks of 2 MiB. A dma-buf
/// covers the whole block.
struct Fragment {
  std::shared_ptr<Block> block;
  std::uint64_t address = 0;
};

/// A GPU's allocations, in whole pages. Not thread-safe.
class BlockHeap {
 public:
  explicit BlockHeap(Device& device) : device_(device) {}

  /// Returns a fragment without a block if there is no memory.
  Fragment allocate(std::uint64_t bytes);
  void free(const Fragment& fragment);

  /// Frees a fragment that another process has attached: its addresses are not reused before that
  /// process has detached it.
  void withdraw(const Fragment& fragment);

 private:
  struct Shared {
    std::shared_ptr<Block> block;
    std::map<std::uint64_t, std::uint64_t> used;  // from address to bytes
    std::map<std::uint64_t, std::uint64_t> withdrawn;
  };

  static void take_back_detached(Shared& shared);

  Device& device_;
  std::vector<Shared> shared_;  // blocks of 2 MiB that small allocations share
};

}  // namespace hbmwire::emulation::rocm
