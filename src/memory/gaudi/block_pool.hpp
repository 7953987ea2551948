// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory/gaudi/free_ranges.hpp"

namespace hbmwire::memory::gaudi {

/// One allocation of the driver, with its mapping.
struct DriverBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t handle = 0;  ///< for the vendor's free function
};

/// The source of a BlockPool's blocks: a card, or a test's replacement.
class BlockSource {
 public:
  BlockSource() = default;
  BlockSource(const BlockSource&) = delete;
  BlockSource& operator=(const BlockSource&) = delete;
  virtual ~BlockSource() = default;

  virtual Result<DriverBlock> take_block(std::uint64_t size_bytes) = 0;
  virtual void give_block_back(const DriverBlock& block) noexcept = 0;
  virtual Result<Fd> export_block(const DriverBlock& block) = 0;
};

/// Puts many allocations into few allocations of the driver, for two reasons. An allocation of the
/// driver takes whole pages of the card (768 MiB on Gaudi2). Each export costs a descriptor and a
/// mapping in the NIC's IOMMU (docs/adr/0014). Thread-safe.
///
/// An allocation of up to half a page shares a block of one page with others. A larger one has its
/// own block, so that rounding never loses more than half of a block. A block has one dma-buf,
/// which begins at its base, and is kept as long as any allocation in the block lives.
///
/// One empty shared block is kept, without its dma-buf, until an allocation finds no memory on the
/// card. Other empty blocks go back to the driver. The driver refuses to unmap a block whose
/// dma-buf is still in use elsewhere: such a block goes back when another block becomes empty, or
/// in the destructor.
class BlockPool {
 public:
  BlockPool(BlockSource& source, const DeviceInfo& device) : source_(source), device_(device) {}

  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  /// Allocates `size_bytes` at an address that is a multiple of 4096.
  Result<std::uint64_t> allocate(std::uint64_t size_bytes);

  /// `address` must come from allocate().
  void free(std::uint64_t address) noexcept;

  /// Implements MemoryDomain::find(), without AddressInfo::refusal.
  [[nodiscard]] std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes);

  /// Implements MemoryDomain::export_dmabuf().
  Result<DmabufRange> export_range(std::uint64_t address, std::uint64_t length_bytes);

 private:
  /// A block of the driver, and the allocations in it.
  struct Block {
    DriverBlock driver;
    bool shared = false;
    FreeRanges free;
    std::uint64_t live = 0;               // the number of allocations in it
    std::shared_ptr<const Fd> dmabuf;     // set only while live > 0
    std::weak_ptr<const Fd> last_dmabuf;  // expires when its last user has gone
  };

  /// An allocation that was given out.
  struct Live {
    std::uint64_t size_bytes = 0;
    std::uint64_t generation = 0;
    Block* block = nullptr;
  };

  using LiveAllocations = std::map<std::uint64_t, Live>;

  // Call these with the lock held.
  /// Puts an allocation into the block, and returns its address; no value if there is no room.
  std::optional<std::uint64_t> place(Block& block, std::uint64_t size_bytes);
  Result<Block*> add_block(std::uint64_t size_bytes, bool shared);
  /// Gives all empty blocks back to the driver, except `kept` of the shared ones.
  void give_empty_blocks_back(unsigned kept) noexcept;
  [[nodiscard]] LiveAllocations::const_iterator holder_of(std::uint64_t address,
                                                          std::uint64_t length_bytes) const;
  Result<std::shared_ptr<const Fd>> dmabuf_of(Block& block);

  BlockSource& source_;
  const DeviceInfo& device_;
  std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;  // by address
  LiveAllocations live_;
};

}  // namespace hbmwire::memory::gaudi
