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
/// *Broken*: fail() puts the data lane into ERROR, tells the peer (`wire::Fence`) and collects the
/// failed transfers. Their memory may still be read and written until two things are true: this
/// end's NIC has given back all posted requests, and the peer has said that its lane is closed, too
/// (`wire::Fenced`) or EndpointOptions::peer_timeout has passed. Then report() ends the transfers.
///
/// *Closed*: each end says goodbye once nothing of its own is under way. When the application has
/// let go of the endpoint, the lanes are closed. The worker destroys the endpoint when no queue
/// holds anything of the lanes.
class Ending {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Ending(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() = default;

  // --- broken

  /// Begins the end of the endpoint. `culprit` (or null) fails with `why`, the other transfers with
  /// error_of_others().
  void fail(const Error& why, TransferState* culprit) noexcept;

  /// Makes `transfer` fail when the endpoint has ended.
  void mark_failed(TransferState& transfer) noexcept;

  /// A part of a transfer is over without a completion of the data lane: reports failures that
  /// waited only for that.
  void settle() noexcept;

  /// Does the next steps of ending that are possible now.
  void advance(Clock::time_point at) noexcept;

  /// Reports all transfers that failed: their memory can no longer change.
  void report() noexcept;

  /// `queue` is lost: no more of its completions will come.
  void on_lost(const transport::CompletionQueue& queue) noexcept;

  /// Why the endpoint has failed; nothing if it has not.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

  /// Why no operation can be started.
  [[nodiscard]] Error not_ready() const noexcept;

  /// Errors: as Endpoint::reconnect(), before anything is done.
  [[nodiscard]] Result<void> check_reconnect() const;

  /// Until when the peer's answer is waited for.
  [[nodiscard]] Clock::time_point settle_by() const noexcept { return settle_by_; }

  // --- messages from the peer

  void on_fence() noexcept;
  void on_fenced() noexcept;
  void on_farewell() noexcept;

  /// The peer has said goodbye.
  [[nodiscard]] bool peer_left() const noexcept { return peer_left_; }

  /// Declares that there is no peer to say goodbye to.
  void expect_no_peer() noexcept { peer_left_ = true; }

  /// Whether the peer's engines have stopped moving bytes for this end.
  [[nodiscard]] bool peer_is_quiet() const noexcept { return peer_quiet_ || peer_left_; }

  // --- the lanes

  /// Whether the data lane can no longer move bytes: it is in ERROR, or destroyed.
  [[nodiscard]] bool is_data_closed() const noexcept { return data_closed_ || lanes_cut_; }

  /// Destroys the queue pairs: they move no more bytes, and none of their requests completes.
  void cut_lanes() noexcept;

  [[nodiscard]] bool lanes_cut() const noexcept { return lanes_cut_; }

  /// Notes that a queue pair was destroyed with requests under way. A completion queue need not
  /// forget the requests of a destroyed queue pair, so memory that a late completion would point to
  /// stays until the worker goes.
  void note_cut() noexcept { any_cut_ = true; }

  // --- closed

  /// Errors: as Endpoint::close().
  Result<void> close(const Wait& wait);

  /// close() without waiting. Errors: Errc::busy: it is being closed already; Errc::exhausted.
  Result<Transfer> start_close(const Deadline& until);

  /// Ends the endpoint for a program that has closed it. `why`: the error of operations still under
  /// way.
  void close_here(const std::optional<Error>& why) noexcept;

  /// Whether the peer can no longer say goodbye.
  [[nodiscard]] bool no_goodbye_comes() const noexcept;

  /// Says goodbye: no operation is under way, and none will begin.
  void enter_closed() noexcept;

  /// The application has let go of the endpoint.
  void abandon() noexcept;

  [[nodiscard]] bool is_abandoned() const noexcept { return abandoned_; }

  /// Closes the lanes of an abandoned endpoint, once all its control messages are sent.
  void close_lanes(Clock::time_point at) noexcept;

  /// After the lanes are closed: waits until the shared receives that they took are back.
  void drain_receives(Clock::time_point at) noexcept;

  [[nodiscard]] bool are_receives_back() const noexcept { return receives_back_; }

  /// Ends the endpoint within this call, whatever is under way.
  void end_now() noexcept;

  /// Whether the application has let go of the endpoint, and no late completion can point to it
  /// (note_cut()).
  [[nodiscard]] bool is_over() const noexcept { return abandoned_ && !any_cut_; }

  /// The error of transfers that did not break the connection themselves.
  [[nodiscard]] Error error_of_others() const noexcept;

 private:
  /// False: the NIC refused, and must be asked again.
  bool close_data() noexcept;
  /// True: a flush is under way, and on_moved() follows.
  bool flush_failed_transfers() noexcept;
  void say_farewell() noexcept;

  EndpointState& endpoint_;
  std::optional<Error> error_;
  TransferState* culprit_ = nullptr;
  TransferState* failed_ = nullptr;  // a list of transfers that fail when the endpoint has ended
  Clock::time_point settle_by_{};
  bool has_culprit_ = false;  // stays true when `culprit_` is reported
  bool data_closed_ = false;  // the data lane is in ERROR
  bool lanes_cut_ = false;    // cut_lanes() was called
  bool any_cut_ = false;      // note_cut() was called
  bool said_farewell_ = false;
  bool closed_here_ = false;    // by the program: close_here()
  bool peer_fenced_ = false;    // the peer's data lane is closed
  bool peer_quiet_ = false;     // the peer has said Fenced
  bool must_answer_ = false;    // the peer waits to hear that our data lane is closed
  bool peer_left_ = false;      // the peer has said goodbye
  bool abandoned_ = false;      // abandon() was called
  bool receives_back_ = false;  // drain_receives() is done
  std::optional<Clock::time_point> draining_since_;
  std::unique_ptr<Goodbye> goodbye_;  // of start_close()
};

}  // namespace hbmwire::detail
