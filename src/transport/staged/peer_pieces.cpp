// SPDX-License-Identifier: MIT
#include "transport/staged/peer_pieces.hpp"

#include <utility>

namespace hbmwire::transport {

Result<PeerPieces> PeerPieces::open(const SharedFileName& name, std::uint64_t address,
                                    std::uint64_t size_bytes) {
  HBMWIRE_TRY_ASSIGN(SharedFile file, SharedFile::open(name, size_bytes));
  return PeerPieces(std::move(file), address);
}

std::byte* PeerPieces::find(std::uint64_t address, std::uint64_t length_bytes) const noexcept {
  const std::uint64_t size = file_.bytes().size();
  const std::uint64_t offset = address - address_;
  if (address < address_ || offset > size || length_bytes > size - offset) return nullptr;
  return file_.bytes().data() + offset;
}

}  // namespace hbmwire::transport
