// SPDX-License-Identifier: MIT
#include "transport/staged/piece_pool.hpp"

#include <bit>
#include <utility>

#include "registration/region_state.hpp"

namespace hbmwire::transport {

PiecePool::PiecePool(Region memory, const Nic& nic)
    : memory_(std::move(memory)), local_key_(*memory_.state().local_key(nic.state())) {
  auto* const begin = std::bit_cast<std::byte*>(memory_.address());
  // Never more than it begins with, so that giving back does not allocate.
  free_.reserve(kPieces);
  for (std::uint32_t i = 0; i < kPieces; ++i) free_.push_back(begin + i * kPieceBytes);
}

std::byte* PiecePool::take() noexcept {
  if (free_.empty()) return nullptr;
  std::byte* const piece = free_.back();
  free_.pop_back();
  return piece;
}

}  // namespace hbmwire::transport
