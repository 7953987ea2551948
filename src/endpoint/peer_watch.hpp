// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "hbmwire/fd.hpp"

#include "endpoint/operation_watches.hpp"
#include "endpoint/sockets.hpp"

namespace hbmwire::detail {

class CmLink;
struct EndpointState;

/// Checks regularly whether the peer is still there, and whether operations end in time. The check
/// does not depend on the peer's process: a process that is stopped or busy is not gone. The peer's
/// NIC answers, or over TCP its machine; and its kernel closes the connection of the handshake when
/// the process ends.
class PeerWatch final : private SocketOwner {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PeerWatch(EndpointState& endpoint) noexcept;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  /// Keeps the connection of the handshake: it ends when the peer's process ends.
  void keep_socket(Fd fd);

  /// The same for a connection of the connection manager.
  void keep_cm(std::unique_ptr<CmLink> link) noexcept;

  /// Stops watching the connection of the handshake.
  void forget_socket() noexcept;

  /// The connection has ended, so the peer's process has, too. Its last messages came before by the
  /// control lane; therefore that lane is polled once more before the end counts.
  void see_end() noexcept;

  /// Whether the peer's process has ended, and all its messages have been handled.
  [[nodiscard]] bool peer_has_ended() const noexcept { return end_ == End::looked; }

  /// The connection is not idle as of `at`.
  void note_activity(Clock::time_point at) noexcept { idle_since_ = at; }

  /// The check of an endpoint that is ready.
  void look(Clock::time_point at) noexcept;

  /// The check of an endpoint over TCP, in any phase.
  void look_at_link(Clock::time_point at) noexcept;

  /// Ends a check. Call it after the other parts have done theirs.
  void end_look() noexcept;

  /// Wakes a sleeping thread of the peer, so that it looks at what was sent.
  void wake_peer() noexcept;

  /// Asks the peer's NIC for a sign of life.
  void keep_alive() noexcept;

 private:
  enum class End : std::uint8_t {
    none,
    seen,    ///< the connection has ended; the peer's last messages may not be handled yet
    looked,  ///< they have been handled
  };

  void on_socket() noexcept override;
  void look_at_operations(Clock::time_point at) noexcept;
  void look_at_queue_pair(Clock::time_point at) noexcept;
  void fail(Errc code, const char* why, Hint hint) noexcept;

  EndpointState& endpoint_;
  Fd socket_;  // of the handshake; -1: there was none, or it has ended
  std::unique_ptr<CmLink> cm_link_;
  End end_ = End::none;
  OperationWatches watches_;
  std::uint32_t seen_head_ = 0;
  Clock::time_point idle_since_{};
  Clock::time_point asked_machine_at_{};
  bool stuck_ = false;  // the queue pair is in ERROR, and no completion has said so
};

}  // namespace hbmwire::detail
