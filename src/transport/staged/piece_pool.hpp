// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/nic.hpp"

#include "base/shared_file.hpp"
#include "transport/staged/pinned_for.hpp"

namespace hbmwire::transport {

/// Pieces of host memory that a NIC and devices' engines reach. One thread at a time.
class PiecePool {
 public:
  // An engine's start-up and a network's round trip are lost in a piece of some hundred KiB, and
  // few of them are enough to keep both busy.
  static constexpr std::uint64_t kPieceBytes = 512ULL << 10;
  static constexpr std::uint32_t kPieces = 16;

  /// `nic`: null where none moves the pieces. Errors: Stage::allocate, register_memory.
  static Result<PiecePool> create(const Context& context, const Nic* nic, std::uint32_t pieces,
                                  Access access);

  /// The same of memory that other processes can map (PeerPieces). Errors: Stage::allocate,
  /// register_memory.
  static Result<PiecePool> create_shared(const Context& context, const Nic* nic,
                                         std::uint32_t pieces, Access access);

  PiecePool(PiecePool&&) noexcept = default;
  PiecePool(const PiecePool&) = delete;
  PiecePool& operator=(const PiecePool&) = delete;
  PiecePool& operator=(PiecePool&&) = delete;

  void pin_for(MemoryDomain& device) noexcept { pinned_.pin_for(device); }

  /// Null: all are in use.
  [[nodiscard]] std::byte* take() noexcept;

  void give_back(std::byte* piece) noexcept { free_.push_back(piece); }

  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }

  [[nodiscard]] std::uint32_t local_key() const noexcept { return local_key_; }

  [[nodiscard]] std::uint32_t remote_key() const noexcept { return remote_key_; }

  /// Where the pieces lie.
  [[nodiscard]] std::uint64_t address() const noexcept { return memory_.address(); }

  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return memory_.size_bytes(); }

  /// Null: nobody else can map it.
  [[nodiscard]] const SharedFile* file() const noexcept { return file_ ? &*file_ : nullptr; }

 private:
  PiecePool(std::optional<SharedFile> file, Region memory, const Nic* nic, std::uint32_t pieces);

  static Result<PiecePool> of(std::optional<SharedFile> file, const Allocation& memory,
                              const Nic* nic, std::uint32_t pieces, Access access);

  std::optional<SharedFile> file_;  // the memory, where it is shared
  Region memory_;
  PinnedFor pinned_;
  std::uint32_t local_key_ = 0;
  std::uint32_t remote_key_ = 0;
  std::vector<std::byte*> free_;
};

}  // namespace hbmwire::transport
