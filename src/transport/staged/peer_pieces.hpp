// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/shared_file.hpp"
#include "transport/staged/pinned_for.hpp"

namespace hbmwire::transport {

/// A PiecePool of a peer's on this machine, as this process has it (SharedFile). Move-only, one
/// thread at a time.
class PeerPieces {
 public:
  /// `address`: where the peer has them. The rest, and errors: SharedFile::open().
  static Result<PeerPieces> open(const SharedFileName& name, std::uint64_t address,
                                 std::uint64_t size_bytes);

  /// What the peer calls [address, address + length_bytes); null: not all of that is here.
  [[nodiscard]] std::byte* find(std::uint64_t address, std::uint64_t length_bytes) const noexcept;

  void pin_for(MemoryDomain& device) noexcept { pinned_.pin_for(device); }

 private:
  PeerPieces(SharedFile file, std::uint64_t address) noexcept
      : file_(std::move(file)), address_(address), pinned_(file_.bytes()) {}

  SharedFile file_;
  std::uint64_t address_;
  PinnedFor pinned_;
};

}  // namespace hbmwire::transport
