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

/// Sees by the clock whether the peer is still there, and whether operations end in time. Nothing
/// here depends on what the peer's process does: one that is stopped or busy is not gone. Its NIC,
/// its machine (over TCP) and the kernel, which closes the connection of the handshake when the
/// process ends, answer for it.
class PeerWatch final : private SocketOwner {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PeerWatch(EndpointState& endpoint) noexcept;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  /// The end of the handshake's connection is that of the peer's process.
  void keep_socket(Fd fd);

  /// The same of the connection manager's.
  void keep_cm(std::unique_ptr<CmLink> link) noexcept;

  /// Stops looking at the handshake's connection.
  void forget_socket() noexcept;

  /// The connection has ended: so has the peer's process. Its last messages came before, by the
  /// control lane, which is polled once more before that counts.
  void see_end() noexcept;

  /// The peer's process has ended, and all that it said has been taken.
  [[nodiscard]] bool peer_has_ended() const noexcept { return end_ == End::looked; }

  /// The connection is not idle as of `at`.
  void note_activity(Clock::time_point at) noexcept { idle_since_ = at; }

  /// For an endpoint that is ready.
  void look(Clock::time_point at) noexcept;

  /// For an endpoint over TCP, in any phase.
  void look_at_link(Clock::time_point at) noexcept;

  /// After the other parts have looked.
  void end_look() noexcept;

  /// Has a thread of the peer's that sleeps look at what was sent.
  void wake_peer() noexcept;

  /// Asks the peer's NIC for a sign.
  void keep_alive() noexcept;

 private:
  enum class End : std::uint8_t { none, seen, looked };

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
