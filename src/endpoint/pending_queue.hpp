// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {

/// Operations of an endpoint of which not all is begun, in their order: there is no room for them,
/// or another mover than the NIC has them. Each is a transfer with its mover and payload, so that
/// nothing is allocated.
class PendingQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

  /// Null: it is empty.
  [[nodiscard]] TransferState* first() const noexcept { return first_; }

  /// `mover` and `payload` are set; `moved` says so.
  void append(TransferState& transfer) noexcept {
    transfer.waiting = true;
    ++queued_;
    transfer.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &transfer;
    last_ = &transfer;
  }

  /// Takes the first one out.
  TransferState& pop() noexcept {
    TransferState& transfer = *first_;
    first_ = transfer.next;
    transfer.waiting = false;
    ++unqueued_;
    return transfer;
  }

  /// So many joined it, and left it, ever.
  [[nodiscard]] std::uint32_t queued() const noexcept { return queued_; }

  [[nodiscard]] std::uint32_t unqueued() const noexcept { return unqueued_; }

 private:
  TransferState* first_ = nullptr;
  TransferState* last_ = nullptr;
  std::uint32_t queued_ = 0;
  std::uint32_t unqueued_ = 0;
};

}  // namespace hbmwire::detail
