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

/// A driver's allocation with its mapping.
struct DriverBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t handle = 0;  ///< what the vendor's free function wants
};

/// Where a BlockPool's blocks come from: a card, or a test's idea of one.
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

/// Many allocations in few of the driver's, because each of those takes whole pages of the card
/// (768 MiB on Gaudi2) and each export is a descriptor and a mapping in the NIC's IOMMU
/// (docs/adr/0014). Thread-safe.
///
/// An allocation of up to half a page shares a block of one page with others; a larger one has a
/// block of its own, so that less than half of what the card gives is ever lost to rounding. A
/// block has one dma-buf, from its base on, kept as long as anything in it is allocated. Of the
/// shared blocks that are empty one is kept, without its dma-buf, and only until the card has no
/// memory for somebody else; the others go back to the driver. A block whose dma-buf somebody
/// still has can't (the driver refuses to unmap it): it goes back when the next block is empty, or
/// in the end.
class BlockPool {
 public:
  BlockPool(BlockSource& source, const DeviceInfo& device) : source_(source), device_(device) {}

  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  /// The address of `size_bytes`, at a multiple of 4096.
  Result<std::uint64_t> allocate(std::uint64_t size_bytes);

  /// What allocate() gave.
  void free(std::uint64_t address) noexcept;

  /// MemoryDomain::find(), but for why it could not be exported.
  [[nodiscard]] std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes);

  /// MemoryDomain::export_dmabuf().
  Result<DmabufRange> export_range(std::uint64_t address, std::uint64_t length_bytes);

 private:
  struct Block {
    DriverBlock driver;
    bool shared = false;
    FreeRanges free;
    std::uint64_t live = 0;               // allocations in it
    std::shared_ptr<const Fd> dmabuf;     // while live > 0
    std::weak_ptr<const Fd> last_dmabuf;  // what others may still have of it
  };

  struct Live {
    std::uint64_t size_bytes = 0;
    std::uint64_t generation = 0;
    Block* block = nullptr;
  };

  using LiveAllocations = std::map<std::uint64_t, Live>;

  // All with the lock held.
  std::optional<std::uint64_t> place(Block& block, std::uint64_t size_bytes);
  Result<Block*> add_block(std::uint64_t size_bytes, bool shared);
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
