// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::memory {

/// A handle for a range of an allocation. The caller fills in the token.
IpcHandle make_ipc_handle(const DeviceInfo& device, std::uint64_t block_bytes,
                          std::uint64_t offset_bytes, std::uint64_t length_bytes);

/// Whether `device` may open the handle. The handle must be for its own memory, or, if
/// `reaches_others`, for that of another device of the same vendor, and its range must lie in its
/// block. Errors: Stage::open, Errc::invalid_argument.
Result<void> check_ipc_handle(const IpcHandle& handle, const DeviceInfo& device,
                              bool reaches_others = false);

/// The memory of other processes that a domain has open. Each block is opened once. Thread-safe.
/// The vendor's calls are made with the lock held, so that a block that is being closed is not
/// opened at the same time.
class IpcBlocks {
 public:
  /// The address of the handle's range. If the block is not open yet, `open()` must return its
  /// address.
  template <class Open>
  Result<std::uint64_t> open(const IpcHandle& handle, Open open) {
    const std::scoped_lock lock(mutex_);
    for (auto& [base, block] : blocks_) {
      if (block.token != handle.token || block.size_bytes != handle.block_bytes) continue;
      ++block.uses;
      return base + handle.offset_bytes;
    }
    Blocks made;  // before open(), so that an opened block surely has a place
    made.emplace(0, Block{handle.token, handle.block_bytes, 1});
    auto place = made.extract(made.begin());
    HBMWIRE_TRY_ASSIGN(const std::uint64_t base, open());
    place.key() = base;
    blocks_.insert(std::move(place));
    return base + handle.offset_bytes;
  }

  /// Whether `address` is in an open block.
  [[nodiscard]] bool holds(std::uint64_t address) {
    const std::scoped_lock lock(mutex_);
    return find(address) != blocks_.end();
  }

  /// Ends one use of the block that holds `address`; after the last use calls `close(base)`.
  /// Returns false if no block holds it.
  template <class Close>
  bool close(std::uint64_t address, Close close) noexcept {
    const std::scoped_lock lock(mutex_);
    const auto found = find(address);
    if (found == blocks_.end()) return false;
    if (--found->second.uses != 0) return true;
    close(found->first);
    blocks_.erase(found);
    return true;
  }

 private:
  /// A block of another process that is open here.
  struct Block {
    decltype(IpcHandle::token) token;
    std::uint64_t size_bytes;
    std::uint64_t uses;
  };

  using Blocks = std::map<std::uint64_t, Block>;

  Blocks::iterator find(std::uint64_t address) noexcept {
    const auto found = blocks_.upper_bound(address);
    if (found == blocks_.begin()) return blocks_.end();
    const auto block = std::prev(found);
    return address - block->first < block->second.size_bytes ? block : blocks_.end();
  }

  std::mutex mutex_;
  Blocks blocks_;
};

}  // namespace hbmwire::memory
