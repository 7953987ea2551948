// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "base/chain.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;
struct UnexpectedMessage;

/// Everything that a worker has ready for its program: transfers that are over
/// (Worker::next_done()), and messages that endpoints hand out (Worker::next_message()), each kind
/// in its order. Each keeps its place among the worker's transfers, or its endpoint's receives, so
/// that there is always room.
class ReadyQueue {
 public:
  ReadyQueue() = default;
  ReadyQueue(const ReadyQueue&) = delete;
  ReadyQueue& operator=(const ReadyQueue&) = delete;
  ~ReadyQueue() = default;

  /// `inner`: becomes readable when the worker has something to do; -1: a thread of the library
  /// waits for that. `several`: threads that sleep on fd(). Errors: Stage::open.
  Result<void> open(int inner, bool several);

  /// Readable when `inner` is, and after arm() when something was added.
  [[nodiscard]] int fd() const noexcept { return outer_ ? outer_.get() : event_.get(); }

  [[nodiscard]] bool empty() const noexcept { return transfers_.empty() && messages_.empty(); }

  [[nodiscard]] bool has_transfer() const noexcept { return !transfers_.empty(); }

  [[nodiscard]] bool has_message() const noexcept { return !messages_.empty(); }

  /// The next add() makes fd() readable, until all is taken.
  void arm() noexcept { armed_ = true; }

  void add(TransferState& transfer) noexcept;
  void add(UnexpectedMessage& message) noexcept;

  /// The one that ended first; null: there is none.
  TransferState* take_transfer() noexcept;

  /// The one that came first; null: there is none.
  UnexpectedMessage* take_message() noexcept;

  /// All of one endpoint's.
  Chain<UnexpectedMessage> take_messages_of(const EndpointState& endpoint) noexcept;

 private:
  void ring() noexcept;
  void silence() noexcept;

  Chain<TransferState> transfers_;
  Chain<UnexpectedMessage> messages_;
  Fd event_;  // eventfd(2)
  Fd outer_;  // of `inner` and `event_`, since a thread that waits for the worker sleeps on `inner`
  // Several may sleep on `event_`: what one of them has taken does not disarm it for the others.
  bool stays_armed_ = false;
  bool armed_ = false;
  bool rung_ = false;  // `event_` is readable
};

}  // namespace hbmwire::detail
