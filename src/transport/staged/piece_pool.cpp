// SPDX-License-Identifier: MIT
#include "transport/staged/piece_pool.hpp"

#include <bit>
#include <span>
#include <utility>

#include "registration/region_state.hpp"
#include "registration/register.hpp"

namespace hbmwire::transport {

namespace {

std::span<std::byte> bytes_of(const Region& memory) {
  return {std::bit_cast<std::byte*>(memory.address()), memory.size_bytes()};
}

}  // namespace

Result<PiecePool> PiecePool::create(const Context& context, const Nic* nic, std::uint32_t pieces,
                                    Access access, bool shared) {
  HBMWIRE_TRY_ASSIGN(const Allocation memory,
                     context.allocate(MemoryType::host, pieces * kPieceBytes,
                                      {.device = {}, .host = {.shared = shared}}));
  if (nic == nullptr) {
    HBMWIRE_TRY_ASSIGN(auto kept, registration::without_nic(memory, /*why=*/Error{}, access));
    return PiecePool(handle_of<Region>(std::move(kept)), nullptr, pieces);
  }
  HBMWIRE_TRY_ASSIGN(Region region, nic->register_memory(memory, access));
  return PiecePool(std::move(region), nic, pieces);
}

PiecePool::PiecePool(Region memory, const Nic* nic, std::uint32_t pieces)
    : memory_(std::move(memory)), pinned_(bytes_of(memory_)) {
  if (nic != nullptr) {
    const auto& mr = *state_of(memory_).with(state_of(*nic))->mr.get();
    local_key_ = mr.lkey;
    remote_key_ = mr.rkey;
  }
  auto* const begin = std::bit_cast<std::byte*>(memory_.address());
  // Room for all pieces, so that give_back() never allocates.
  free_.reserve(pieces);
  for (std::uint32_t i = 0; i < pieces; ++i) free_.push_back(begin + i * kPieceBytes);
}

std::byte* PiecePool::take() noexcept {
  if (free_.empty()) return nullptr;
  std::byte* const piece = free_.back();
  free_.pop_back();
  return piece;
}

Result<IpcHandle> PiecePool::handle() const {
  MemoryDomain& domain = state_of(memory_).allocation.domain();
  return domain.ipc_handle(memory_.address(), memory_.size_bytes());
}

}  // namespace hbmwire::transport
