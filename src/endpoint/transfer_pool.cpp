// SPDX-License-Identifier: MIT
#include "endpoint/transfer_pool.hpp"

namespace hbmwire::detail {

void TransferPool::make(std::uint32_t count, WorkerState& worker, bool guarded, bool railed,
                        bool timed) {
  transfers_ = std::vector<TransferState>(count);
  errors_ = std::vector<Error>(count);
  if (timed) times_ = std::vector<TransferTimes>(count);
  if (railed) rail_uses_ = std::vector<RailUse>(count);
  // The first one is taken first.
  for (auto transfer = transfers_.rbegin(); transfer != transfers_.rend(); ++transfer) {
    transfer->worker = &worker;
    transfer->guarded = guarded;
    give_back(*transfer);
  }
}

}  // namespace hbmwire::detail
