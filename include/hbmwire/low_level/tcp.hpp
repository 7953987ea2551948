// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/fd.hpp"

/// TCP for programs that use a Connection and carry addresses and keys themselves. Each wait has a
/// deadline and can be cancelled, and each error names the peer. Endpoints need none of it. All
/// errors are of Stage::connect.
namespace hbmwire::tcp {

namespace detail {
struct ListenerState;
}

/// Resolves `host` (a name, IPv4, IPv6) and tries its addresses one after the other. The socket is
/// non-blocking, sends without delay, and fails within 10 s when the peer's host is gone (tcp(7)).
/// Errors: Errc::not_found, timed_out, cancelled, peer_failed.
[[nodiscard]] HBMWIRE_API Result<Fd> connect(const std::string& host, std::uint16_t port,
                                             const Wait& wait);

/// Sends all of `data`, or gives an error, which names `peer`: Errc::peer_failed, timed_out,
/// cancelled.
HBMWIRE_API Result<void> send(int fd, std::span<const std::byte> data, const Wait& wait,
                              std::string_view peer);

/// Receives exactly `data.size()` bytes, or gives an error, as send(). The end of the connection is
/// Errc::peer_failed.
HBMWIRE_API Result<void> receive(int fd, std::span<std::byte> data, const Wait& wait,
                                 std::string_view peer);

/// A connection that a Listener has taken.
struct Accepted {
  Fd socket;         ///< as of connect(); none: there was no connection, or no descriptor for it
  std::string peer;  ///< "192.0.2.1:4711"
  /// Set when the process, or the system, is out of descriptors or memory. `socket` then has the
  /// listener's spare descriptor: tell the peer, close it, and call Listener::keep_spare().
  std::optional<Error> shortage;
};

/// A socket that peers connect to. Move-only; one thread at a time.
class HBMWIRE_API Listener {
 public:
  /// Listens on `address` of this machine; empty: on all, IPv4 and IPv6. Port 0 takes a free one.
  /// Errors: Errc::busy (Hint::port_in_use), permission_denied, not_found, invalid_argument.
  static Result<Listener> listen(const std::string& address, std::uint16_t port);

  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  /// The port that it listens on.
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Readable when a connection waits, poll(2). Owned by the listener.
  [[nodiscard]] int fd() const noexcept;

  /// Takes a connection that waits. Never blocks. Errors: Errc::exhausted, no memory.
  Result<Accepted> accept();

  /// Reserves a descriptor again, so that a peer can be told of the next shortage. After a
  /// shortage, close Accepted::socket first.
  void keep_spare() noexcept;

 private:
  explicit Listener(std::unique_ptr<detail::ListenerState> state) noexcept;

  std::unique_ptr<detail::ListenerState> state_;
};

}  // namespace hbmwire::tcp
