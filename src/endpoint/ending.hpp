// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "hbmwire/endpoint.hpp"

#include "endpoint/goodbye.hpp"

namespace hbmwire::transport {
class CompletionQueue;
}

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;

/// How an endpoint ends (docs/endpoint-states.md).
///
/// *Broken*: fail() puts the data lane into ERROR, tells the peer (`wire::Fence`) and keeps the
/// failed transfers. Their memory may be read and written until this end's NIC has given back all
/// that was posted and the peer says that its lane is closed as well (`wire::Fenced`), or
/// EndpointOptions::peer_timeout has passed: then report() ends them.
///
/// *Closed*: each end says goodbye once nothing of its own is under way. Once let go of by the
/// application the lanes are closed, and when nothing of them is in a queue the worker destroys the
/// endpoint.
class Ending {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Ending(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() = default;

  // --- broken

  /// From here on the endpoint is ending. `culprit` (or null) fails with `why`, the others because
  /// of it.
  void fail(const Error& why, TransferState* culprit) noexcept;

  /// `transfer` fails when the endpoint has ended.
  void mark_failed(TransferState& transfer) noexcept;

  /// A part of a transfer is over without a completion of the data lane: reports what waited for
  /// that.
  void settle() noexcept;

  /// Does what can be done by now.
  void advance(Clock::time_point at) noexcept;

  /// Reports all transfers that failed: no byte changes by them any more.
  void report() noexcept;

  /// The completion queue is of no use any more.
  void on_lost(const transport::CompletionQueue& queue) noexcept;

  /// Why the endpoint has failed; nothing: it has not.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

  /// Why nothing can be started.
  [[nodiscard]] Error not_ready() const noexcept;

  /// Errors: as Endpoint::reconnect(), before anything is done.
  [[nodiscard]] Result<void> check_reconnect() const;

  /// Until when the peer is waited for.
  [[nodiscard]] Clock::time_point settle_by() const noexcept { return settle_by_; }

  // --- the peer's messages

  void on_fence() noexcept;
  void on_fenced() noexcept;
  void on_farewell() noexcept;

  /// The peer has said goodbye.
  [[nodiscard]] bool peer_left() const noexcept { return peer_left_; }

  /// No peer is there to say goodbye to.
  void expect_no_peer() noexcept { peer_left_ = true; }

  /// The peer's engines do nothing for this end any more.
  [[nodiscard]] bool peer_is_quiet() const noexcept { return peer_quiet_ || peer_left_; }

  // --- the lanes

  /// Nothing moves by the data lane any more: it is in ERROR, or destroyed.
  [[nodiscard]] bool is_data_closed() const noexcept { return data_closed_ || lanes_cut_; }

  /// Destroys the queue pairs: nothing moves by them any more, and nothing of them completes.
  void cut_lanes() noexcept;

  [[nodiscard]] bool lanes_cut() const noexcept { return lanes_cut_; }

  /// A queue pair was destroyed with requests under way. Memory that a completion would lead to
  /// stays until the worker goes, as nothing promises that a completion queue forgets a destroyed
  /// queue pair.
  void note_cut() noexcept { any_cut_ = true; }

  // --- closed

  /// Errors: as Endpoint::close().
  Result<void> close(const Wait& wait);

  /// The same without waiting. Errors: Errc::busy: it is being closed already; Errc::exhausted.
  Result<Transfer> start_close(const Deadline& until);

  /// The program has closed it; `why`: what is under way fails because of that.
  void close_here(const std::optional<Error>& why) noexcept;

  /// None will come of the peer.
  [[nodiscard]] bool no_goodbye_comes() const noexcept;

  /// Nothing is under way, and none begins: says goodbye.
  void enter_closed() noexcept;

  /// The application has let go of the endpoint.
  void abandon() noexcept;

  [[nodiscard]] bool is_abandoned() const noexcept { return abandoned_; }

  /// Closes the lanes of an abandoned endpoint, once all was said.
  void close_lanes(Clock::time_point at) noexcept;

  /// Once the lanes are closed: waits until what they took of shared receives is back.
  void drain_receives(Clock::time_point at) noexcept;

  [[nodiscard]] bool are_receives_back() const noexcept { return receives_back_; }

  /// Ends the endpoint within this call, whatever is under way.
  void end_now() noexcept;

  /// Nothing of it leads to the endpoint any more.
  [[nodiscard]] bool is_over() const noexcept { return abandoned_ && !any_cut_; }

  /// The error of transfers that did not break the connection themselves.
  [[nodiscard]] Error error_of_others() const noexcept;

 private:
  /// False: the NIC refused, and has to be asked again.
  bool close_data() noexcept;
  bool flush_failed() noexcept;
  void say_farewell() noexcept;

  EndpointState& endpoint_;
  std::optional<Error> error_;
  TransferState* culprit_ = nullptr;
  TransferState* failed_ = nullptr;  // a list: they fail when the endpoint has ended
  Clock::time_point settle_by_{};
  bool has_culprit_ = false;
  bool data_closed_ = false;  // the data lane is in ERROR
  bool lanes_cut_ = false;
  bool any_cut_ = false;
  bool said_farewell_ = false;
  bool closed_here_ = false;
  bool peer_fenced_ = false;  // the peer's data lane is closed
  bool peer_quiet_ = false;
  bool must_answer_ = false;  // the peer waits for word that ours is
  bool peer_left_ = false;
  bool abandoned_ = false;
  bool receives_back_ = false;
  std::optional<Clock::time_point> draining_since_;
  std::unique_ptr<Goodbye> goodbye_;  // of start_close()
};

}  // namespace hbmwire::detail
