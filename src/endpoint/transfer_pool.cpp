// SPDX-License-Identifier: MIT
#include "endpoint/transfer_pool.hpp"

#include <ranges>

namespace hbmwire::detail {

void TransferPool::make(std::uint32_t count, WorkerState& worker, bool guarded, bool railed) {
  transfers_ = std::vector<TransferState>(count);
  errors_ = std::vector<Error>(count);
  if (railed) rail_uses_ = std::vector<RailUse>(count);
  for (TransferState& transfer : std::views::reverse(transfers_)) {
    transfer.worker = &worker;
    transfer.guarded = guarded;
    give_back(transfer);
  }
}

}  // namespace hbmwire::detail
