// SPDX-License-Identifier: MIT
#include "endpoint/transfer_pool.hpp"

namespace hbmwire::detail {

void TransferPool::make(std::uint32_t count, WorkerState& worker, bool guarded, bool railed) {
  const std::size_t all = std::size_t{count} + kParts;
  transfers_ = std::vector<TransferState>(all);
  errors_ = std::vector<Error>(all);
  times_ = std::vector<TransferTimes>(all);
  if (railed) rail_uses_ = std::vector<RailUse>(all);
  for (std::size_t i = count; i < all; ++i) transfers_[i].at_end = AtEnd::kPart;
  // In reverse, so that the first transfer is taken first.
  for (auto transfer = transfers_.rbegin(); transfer != transfers_.rend(); ++transfer) {
    transfer->worker = &worker;
    transfer->guarded = guarded;
    give_back(*transfer);
  }
}

TransferState* TransferPool::take_part(const TransferState& whole) noexcept {
  TransferState* const part = free_parts_;
  if (part == nullptr) return nullptr;
  free_parts_ = part->next;
  part->at_end = AtEnd::kPart;
  part->cookie = index_of(whole);
  return part;
}

}  // namespace hbmwire::detail
