// SPDX-License-Identifier: MIT
#include "transport/staged/piece_pool.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/log.hpp"
#include "registration/region_state.hpp"
#include "registration/register.hpp"

namespace hbmwire::transport {

Result<PiecePool> PiecePool::create(const Context& context, const Nic* nic, std::uint32_t pieces,
                                    Access access) {
  HBMWIRE_TRY_ASSIGN(const Allocation memory,
                     context.allocate(MemoryType::host, pieces * kPieceBytes));
  if (nic == nullptr) {
    HBMWIRE_TRY_ASSIGN(auto kept, registration::without_nic(memory, Error{}, access));
    return PiecePool(Region(std::move(kept)), nullptr, pieces);
  }
  HBMWIRE_TRY_ASSIGN(Region region, nic->register_memory(memory, access));
  return PiecePool(std::move(region), nic, pieces);
}

PiecePool::PiecePool(Region memory, const Nic* nic, std::uint32_t pieces)
    : memory_(std::move(memory)) {
  if (nic != nullptr) {
    const ibv_mr& mr = *memory_.state().with(nic->state())->mr.get();
    local_key_ = mr.lkey;
    remote_key_ = mr.rkey;
  }
  auto* const begin = std::bit_cast<std::byte*>(memory_.address());
  // Never more than it begins with, so that giving back does not allocate.
  free_.reserve(pieces);
  for (std::uint32_t i = 0; i < pieces; ++i) free_.push_back(begin + i * kPieceBytes);
}

PiecePool::~PiecePool() {
  for (const auto& each : asked_) {
    if (const auto device = each.lock()) device->unpin_host(bytes());
  }
}

std::span<std::byte> PiecePool::bytes() const {
  return {std::bit_cast<std::byte*>(memory_.address()), memory_.size_bytes()};
}

void PiecePool::pin_for(MemoryDomain& device) noexcept {
  std::erase_if(asked_, [](const auto& each) { return each.expired(); });
  const auto ours = device.weak_from_this();
  const bool known = std::ranges::any_of(asked_, [&](const auto& each) {
    return !each.owner_before(ours) && !ours.owner_before(each);
  });
  if (known) return;
  asked_.push_back(ours);
  const auto pinned = device.pin_host(bytes());
  if (pinned || pinned.error().code == Errc::not_supported) return;
  log_line(LogLevel::warn, "staged copies are made twice: " + describe(pinned.error()));
}

std::byte* PiecePool::take() noexcept {
  if (free_.empty()) return nullptr;
  std::byte* const piece = free_.back();
  free_.pop_back();
  return piece;
}

}  // namespace hbmwire::transport
