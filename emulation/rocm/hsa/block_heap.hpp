// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "emulation/rocm/hsa/devices.hpp"

namespace hbmwire::emulation::rocm {

/// What the driver is asked for at once: a range of the GPU's memory, and as many addresses, at
/// which the CPU finds nothing before it is shown something.
class Block {
 public:
  /// Null when there is no memory, or no room for addresses.
  static std::shared_ptr<Block> take(Device& device, std::uint64_t bytes);

  /// What another process offers; -ENOENT, -ENOMEM, -EBUSY.
  static std::shared_ptr<Block> attach(Device& device, const ShareKey& key, int& error);

  Block(GpuMemory& memory, const GpuMemory::Range& range, std::uint64_t base)
      : memory_(memory), range_(range), base_(base) {}

  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] GpuMemory& memory() const { return memory_; }

  [[nodiscard]] const GpuMemory::Range& range() const { return range_; }

  [[nodiscard]] std::uint64_t base() const { return base_; }

  /// Whole pages of the block are mapped for the CPU, as through a large BAR. False when there is
  /// no room for another mapping.
  bool show(std::uint64_t address, std::uint64_t bytes);

  /// The opposite.
  static void hide(std::uint64_t address, std::uint64_t bytes);

 private:
  GpuMemory& memory_;
  GpuMemory::Range range_;
  std::uint64_t base_;
  std::optional<GpuMemory::Attachment> attachment_;  // not this process's
};

/// A part of a block, as ROCr cuts small allocations out of blocks of 2 MiB. A dma-buf is of the
/// whole block.
struct Fragment {
  std::shared_ptr<Block> block;
  std::uint64_t address = 0;
};

/// A GPU's allocations, in whole pages. Not thread-safe.
class BlockHeap {
 public:
  explicit BlockHeap(Device& device) : device_(device) {}

  /// Without a block when there is no memory.
  Fragment allocate(std::uint64_t bytes);
  void free(const Fragment& fragment);

  /// The same while another process has it attached: its addresses are given to nobody until that
  /// one has detached it.
  void withdraw(const Fragment& fragment);

 private:
  struct Shared {
    std::shared_ptr<Block> block;
    std::map<std::uint64_t, std::uint64_t> used;  // address to bytes
    std::map<std::uint64_t, std::uint64_t> withdrawn;
  };

  static void take_back_detached(Shared& shared);

  Device& device_;
  std::vector<Shared> shared_;  // blocks of 2 MiB that small allocations share
};

}  // namespace hbmwire::emulation::rocm
