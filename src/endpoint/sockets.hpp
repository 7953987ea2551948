// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "base/forks.hpp"

namespace hbmwire::detail {

/// What a worker's descriptor belongs to.
class SocketOwner {
 public:
  /// The descriptor is ready for some of what was asked for (EPOLLIN, ...).
  virtual void on_socket() noexcept = 0;

 protected:
  SocketOwner() = default;
  SocketOwner(const SocketOwner&) = default;
  SocketOwner& operator=(const SocketOwner&) = default;
  ~SocketOwner() = default;
};

/// The descriptors of a worker's handshakes, and of its endpoints' sockets: an epoll(7) within the
/// worker's own, so that its fd becomes readable with any of them, and one call asks for all.
class Sockets {
 public:
  using Clock = std::chrono::steady_clock;

  /// `worker_epoll`: where it is put. Errors: Stage::open.
  Result<void> open(int worker_epoll);

  /// `owner` outlives it, or forget()s. Errors: Stage::connect.
  Result<void> watch(int fd, std::uint32_t events, SocketOwner& owner);
  void change(int fd, std::uint32_t events, SocketOwner& owner) noexcept;
  void forget(int fd) noexcept;

  void begin_handshake() noexcept { ++handshakes_; }

  void end_handshake() noexcept { --handshakes_; }

  [[nodiscard]] std::size_t handshakes() const noexcept { return handshakes_; }

  /// Calls the owners of what is ready, where the last look was some time ago; how many. An owner
  /// may destroy others.
  std::size_t look(Clock::time_point at) noexcept;

  /// The next look() looks.
  void look_soon() noexcept { next_look_ = {}; }

 private:
  // The set is shared with a child by fork(2), which would take what it forgets from its parent.
  MadeHere made_;
  Fd epoll_;
  std::size_t count_ = 0;
  std::size_t handshakes_ = 0;
  Clock::time_point next_look_{};
};

}  // namespace hbmwire::detail
