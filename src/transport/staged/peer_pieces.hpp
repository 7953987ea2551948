// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "transport/staged/pinned_for.hpp"

namespace hbmwire::transport {

/// This process's mapping of a PiecePool that belongs to a peer on this machine. Move-only; one
/// thread at a time.
class PeerPieces {
 public:
  /// The most bytes of a peer's pool that this process maps; a driver may have to lock all of them.
  static constexpr std::uint64_t kMostBytes = 64ULL << 20U;

  /// `host` is the domain that opens the pool; `address` is its address in the peer. Errors: those
  /// of MemoryDomain::open_ipc(), Errc::invalid_argument (more than kMostBytes).
  static Result<PeerPieces> open(MemoryDomain& host, const IpcHandle& handle,
                                 std::uint64_t address);

  /// Translates the peer's [address, address + length_bytes); null if not all of it is in the pool.
  [[nodiscard]] std::byte* find(std::uint64_t address, std::uint64_t length_bytes) const noexcept;

  /// As PinnedFor::pin_for().
  void pin_for(MemoryDomain& device) noexcept { pinned_.pin_for(device); }

 private:
  PeerPieces(Allocation memory, std::uint64_t address) noexcept;

  Allocation memory_;
  std::uint64_t address_;
  PinnedFor pinned_;
};

}  // namespace hbmwire::transport
