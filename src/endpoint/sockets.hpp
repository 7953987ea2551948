// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "base/forks.hpp"

namespace hbmwire::detail {

/// The owner of a descriptor that a worker watches.
class SocketOwner {
 public:
  /// The descriptor is ready for at least one of the events that were asked for (EPOLLIN, ...).
  virtual void on_socket() noexcept = 0;

 protected:
  SocketOwner() = default;
  SocketOwner(const SocketOwner&) = default;
  SocketOwner& operator=(const SocketOwner&) = default;
  ~SocketOwner() = default;
};

/// The descriptors of a worker's handshakes, and of its endpoints' sockets. They are in an epoll(7)
/// set within the worker's own set. The worker's fd therefore becomes readable with any of them,
/// and one call asks for all.
class Sockets {
 public:
  using Clock = std::chrono::steady_clock;

  /// Makes the set, and puts it into `worker_epoll`. Errors: Stage::open.
  Result<void> open(int worker_epoll);

  /// Watches a descriptor. `owner` must outlive this object, or call forget(). Errors:
  /// Stage::connect.
  Result<void> watch(int fd, std::uint32_t events, SocketOwner& owner);
  void change(int fd, std::uint32_t events, SocketOwner& owner) noexcept;
  void forget(int fd) noexcept;

  /// While there are handshakes, look() looks more often.
  void begin_handshake() noexcept { ++handshakes_; }

  void end_handshake() noexcept { --handshakes_; }

  [[nodiscard]] std::size_t handshakes() const noexcept { return handshakes_; }

  /// Calls the owners of ready descriptors, if the last look was some time ago. Returns how many
  /// were called. An owner may destroy others.
  std::size_t look(Clock::time_point at) noexcept;

  /// Lets the next look() look in any case.
  void look_soon() noexcept { next_look_ = {}; }

 private:
  // A child by fork(2) shares the set: if it removed descriptors, they would be gone for its
  // parent, too.
  MadeHere made_;
  Fd epoll_;
  std::size_t count_ = 0;
  std::size_t handshakes_ = 0;
  Clock::time_point next_look_{};
};

}  // namespace hbmwire::detail
