// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "transport/staged/pinned_for.hpp"

namespace hbmwire::transport {

/// A pool of pieces of host memory, which a NIC and devices' engines can reach. One thread at a
/// time.
class PiecePool {
 public:
  // Bytes. In a piece of some hundred KiB, an engine's start-up time and a network's round trip
  // hardly count. A few such pieces keep both busy.
  static constexpr std::uint64_t kPieceBytes = 512ULL << 10;
  static constexpr std::uint32_t kPieces = 16;

  /// `nic` may be null if no NIC moves the pieces. `shared`: whether other processes can map them
  /// (PeerPieces). Errors: Stage::allocate, Stage::register_memory.
  static Result<PiecePool> create(const Context& context, const Nic* nic, std::uint32_t pieces,
                                  Access access, bool shared = false);

  PiecePool(PiecePool&&) noexcept = default;
  PiecePool(const PiecePool&) = delete;
  PiecePool& operator=(const PiecePool&) = delete;
  PiecePool& operator=(PiecePool&&) = delete;
  ~PiecePool() = default;

  /// As PinnedFor::pin_for().
  void pin_for(MemoryDomain& device) noexcept { pinned_.pin_for(device); }

  /// Null if all pieces are in use.
  [[nodiscard]] std::byte* take() noexcept;

  void give_back(std::byte* piece) noexcept { free_.push_back(piece); }

  /// The number of pieces that are not in use.
  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }

  [[nodiscard]] std::uint32_t local_key() const noexcept { return local_key_; }

  [[nodiscard]] std::uint32_t remote_key() const noexcept { return remote_key_; }

  /// The address of the first piece.
  [[nodiscard]] std::uint64_t address() const noexcept { return memory_.address(); }

  /// A handle for all pieces, if they are shared. Errors: those of MemoryDomain::ipc_handle().
  [[nodiscard]] Result<IpcHandle> handle() const;

 private:
  PiecePool(Region memory, const Nic* nic, std::uint32_t pieces);

  Region memory_;
  PinnedFor pinned_;
  std::uint32_t local_key_ = 0;
  std::uint32_t remote_key_ = 0;
  std::vector<std::byte*> free_;
};

}  // namespace hbmwire::transport
