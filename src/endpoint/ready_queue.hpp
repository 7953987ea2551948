// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "base/chain.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;
struct UnexpectedMessage;

/// Results that a worker has ready for its program: transfers that are over (Worker::next_done()),
/// and messages that endpoints hand out (Worker::next_message()), each kind in its order. Each
/// result keeps its place among the worker's transfers, or its endpoint's receives, so that the
/// queue always has room.
class ReadyQueue {
 public:
  ReadyQueue() = default;
  ReadyQueue(const ReadyQueue&) = delete;
  ReadyQueue& operator=(const ReadyQueue&) = delete;
  ~ReadyQueue() = default;

  /// `inner`: a descriptor that becomes readable when the worker has something to do; -1: a thread
  /// of the library waits for that. `several`: several threads may sleep on fd(). Errors:
  /// Stage::open.
  Result<void> open(int inner, bool several);

  /// Readable when `inner` is, and after arm() when something was added.
  [[nodiscard]] int fd() const noexcept { return outer_ ? outer_.get() : event_.get(); }

  [[nodiscard]] bool empty() const noexcept { return transfers_.empty() && messages_.empty(); }

  [[nodiscard]] bool has_transfer() const noexcept { return !transfers_.empty(); }

  [[nodiscard]] bool has_message() const noexcept { return !messages_.empty(); }

  /// Lets the next add() make fd() readable, until everything is taken.
  void arm() noexcept { armed_ = true; }

  void add(TransferState& transfer) noexcept;
  void add(UnexpectedMessage& message) noexcept;

  /// The transfer that ended first; null if there is none.
  TransferState* take_transfer() noexcept;

  /// The message that came first; null if there is none.
  UnexpectedMessage* take_message() noexcept;

  /// All messages of one endpoint.
  Chain<UnexpectedMessage> take_messages_of(const EndpointState& endpoint) noexcept;

 private:
  /// Makes `event_` readable, if it is armed.
  void ring() noexcept;

  /// Makes `event_` unreadable again, once everything is taken.
  void silence() noexcept;

  Chain<TransferState> transfers_;
  Chain<UnexpectedMessage> messages_;
  Fd event_;  // eventfd(2)
  Fd outer_;  // epoll(7) of `inner` and `event_`, since a thread that waits for the worker sleeps
              // on `inner`
  // Set if several threads may sleep on `event_`: taking results in one of them must not disarm it
  // for the others.
  bool stays_armed_ = false;
  bool armed_ = false;
  bool rung_ = false;  // `event_` is readable
};

}  // namespace hbmwire::detail
