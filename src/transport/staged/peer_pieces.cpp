// SPDX-License-Identifier: MIT
#include "transport/staged/peer_pieces.hpp"

#include <bit>
#include <span>

namespace hbmwire::transport {

namespace {

std::span<std::byte> bytes_of(const Allocation& memory) {
  return {std::bit_cast<std::byte*>(memory.address()), memory.size_bytes()};
}

}  // namespace

Result<PeerPieces> PeerPieces::open(MemoryDomain& host, const IpcHandle& handle,
                                    std::uint64_t address) {
  if (handle.block_bytes > kMostBytes) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::open,
                                          "more than pieces take", host.device().name));
  }
  HBMWIRE_TRY_ASSIGN(Allocation memory, host.open_ipc(handle));
  return PeerPieces(std::move(memory), address);
}

PeerPieces::PeerPieces(Allocation memory, std::uint64_t address) noexcept
    : memory_(std::move(memory)), address_(address), pinned_(bytes_of(memory_)) {}

std::byte* PeerPieces::find(std::uint64_t address, std::uint64_t length_bytes) const noexcept {
  const std::uint64_t size = memory_.size_bytes();
  const std::uint64_t offset = address - address_;
  if (address < address_ || offset > size || length_bytes > size - offset) return nullptr;
  return bytes_of(memory_).data() + offset;
}

}  // namespace hbmwire::transport
