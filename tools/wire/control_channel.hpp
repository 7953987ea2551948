// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/low_level/tcp.hpp"

#include "tools/wire/messages.hpp"

namespace hbmwire::tools::wire {

/// The length of the preamble, which both sides send first on every control connection: eight bytes
/// that no other protocol sends, a version, and six reserved bytes that are zero.
inline constexpr std::size_t kPreambleBytes = 16;

/// The preamble of this side.
[[nodiscard]] std::array<std::byte, kPreambleBytes> preamble() noexcept;

/// The version of the protocol in a peer's preamble; empty if the peer speaks another protocol.
[[nodiscard]] std::optional<std::uint16_t> version_in(
    std::span<const std::byte, kPreambleBytes> preamble) noexcept;

/// The TCP connection between two peers. Move-only; not thread-safe. Errors have Stage::connect and
/// the peer's name. They are Errc::peer_failed if the peer disconnected, Errc::protocol if it
/// speaks another protocol, timed_out, and cancelled.
class ControlChannel {
 public:
  /// Resolves `host` (a name, IPv4 or IPv6), tries each of its addresses, and exchanges preambles.
  static Result<ControlChannel> connect(const std::string& host, std::uint16_t port,
                                        const Wait& wait);

  /// The server's side, for a socket from ControlListener::accept(): reads the peer's preamble.
  static Result<ControlChannel> accept(Fd socket, std::string peer, const Wait& wait);

  ControlChannel(ControlChannel&&) noexcept = default;
  ControlChannel& operator=(ControlChannel&&) noexcept = default;
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;
  ~ControlChannel() = default;

  Result<void> send(const Message& message, const Wait& wait);

  /// The next message. An Abort from the peer is returned like any other message.
  Result<Message> receive(const Wait& wait);

  /// The next message, which must be a `T`. An Abort becomes Errc::peer_failed, with its text in
  /// abort_text(). Any other message is Errc::protocol.
  template <class T>
  Result<T> expect(const Wait& wait) {
    auto message = receive(wait);
    if (!message) return tl::make_unexpected(message.error());
    if (auto* wanted = std::get_if<T>(&*message)) return std::move(*wanted);
    return tl::make_unexpected(unexpected(*message));
  }

  /// The peer's reason, made printable; empty if it sent none.
  [[nodiscard]] const std::string& abort_text() const noexcept { return abort_text_; }

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

 private:
  ControlChannel(Fd socket, std::string peer) noexcept
      : socket_(std::move(socket)), peer_(std::move(peer)) {}

  Result<void> take_preamble(const Wait& wait);
  Error unexpected(const Message& message);

  Fd socket_;
  std::string peer_;
  std::string abort_text_;
};

}  // namespace hbmwire::tools::wire
