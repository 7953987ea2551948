// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "base/chain.hpp"
#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {

/// Operations of an endpoint that have not begun completely, in their order. They wait for room, or
/// a mover other than the NIC works on them. Each is a transfer with its mover and payload, so that
/// queueing allocates nothing.
class PendingQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return transfers_.empty(); }

  /// Null if it is empty.
  [[nodiscard]] TransferState* first() const noexcept { return transfers_.first; }

  /// `mover` and `payload` of `transfer` must be set, and `moved` with them.
  void append(TransferState& transfer) noexcept {
    transfer.waiting = true;
    ++queued_;
    transfers_.append(transfer);
  }

  /// Takes the first one out.
  TransferState& pop() noexcept {
    TransferState& transfer = transfers_.take_first();
    transfer.waiting = false;
    ++unqueued_;
    return transfer;
  }

  /// How many have ever joined it, and left it.
  [[nodiscard]] std::uint32_t queued() const noexcept { return queued_; }

  [[nodiscard]] std::uint32_t unqueued() const noexcept { return unqueued_; }

 private:
  Chain<TransferState> transfers_;
  std::uint32_t queued_ = 0;
  std::uint32_t unqueued_ = 0;
};

}  // namespace hbmwire::detail
