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

/// A PiecePool of a peer's on this machine, as this process has it. Move-only, one thread at a
/// time.
class PeerPieces {
 public:
  /// So much of a peer's memory is taken for its pieces; a driver may have to lock all of it.
  static constexpr std::uint64_t kMostBytes = 64ULL << 20U;

  /// `host`: which opens it; `address`: where the peer has them. Errors: as
  /// MemoryDomain::open_ipc(), Errc::invalid_argument: more than kMostBytes.
  static Result<PeerPieces> open(MemoryDomain& host, const IpcHandle& handle,
                                 std::uint64_t address);

  /// What the peer calls [address, address + length_bytes); null: not all of that is here.
  [[nodiscard]] std::byte* find(std::uint64_t address, std::uint64_t length_bytes) const noexcept;

  void pin_for(MemoryDomain& device) noexcept { pinned_.pin_for(device); }

 private:
  PeerPieces(Allocation memory, std::uint64_t address) noexcept;

  Allocation memory_;
  std::uint64_t address_;
  PinnedFor pinned_;
};

}  // namespace hbmwire::transport
