// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "base/chain.hpp"

namespace hbmwire::detail {

struct TransferState;

/// Transfers of a worker that are over and wait for Worker::next_done(), in the order in which they
/// ended. Each keeps its place among the worker's transfers meanwhile, so that there is always
/// room.
class DoneQueue {
 public:
  DoneQueue() = default;
  DoneQueue(const DoneQueue&) = delete;
  DoneQueue& operator=(const DoneQueue&) = delete;
  ~DoneQueue() = default;

  /// `inner`: becomes readable when the worker has something to do; -1: a thread of the library
  /// waits for that. Errors: Stage::open.
  Result<void> open(int inner);

  /// Readable when `inner` is, and after arm() when something was added.
  [[nodiscard]] int fd() const noexcept { return outer_ ? outer_.get() : event_.get(); }

  [[nodiscard]] bool empty() const noexcept { return transfers_.empty(); }

  /// The next add() makes fd() readable, until all is taken.
  void arm() noexcept { armed_ = true; }

  void add(TransferState& transfer) noexcept;

  /// The one that ended first; null: there is none.
  TransferState* take() noexcept;

 private:
  Chain<TransferState> transfers_;
  Fd event_;  // eventfd(2)
  Fd outer_;  // of `inner` and `event_`, since a thread that waits for the worker sleeps on `inner`
  bool armed_ = false;
  bool rung_ = false;  // `event_` is readable
};

}  // namespace hbmwire::detail
