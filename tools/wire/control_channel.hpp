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

/// The length of what every control connection begins with, both ways: eight bytes that no other
/// protocol sends, a version, and six bytes to be zero until they are needed.
inline constexpr std::size_t kPreambleBytes = 16;

/// This side's.
[[nodiscard]] std::array<std::byte, kPreambleBytes> preamble() noexcept;

/// The version of the protocol that a peer's preamble names; nothing: it speaks another protocol.
[[nodiscard]] std::optional<std::uint16_t> version_in(
    std::span<const std::byte, kPreambleBytes> preamble) noexcept;

/// The TCP connection between two peers. Move-only; one thread at a time. Errors carry
/// Stage::connect and the peer's name: Errc::peer_failed when it went away, Errc::protocol when it
/// speaks something else, timed_out, cancelled.
class ControlChannel {
 public:
  /// Resolves `host` (name, IPv4, IPv6), tries each of its addresses, and exchanges preambles.
  static Result<ControlChannel> connect(const std::string& host, std::uint16_t port,
                                        const Wait& wait);

  /// The server's side of a socket that ControlListener::accept() gave: takes the peer's preamble.
  static Result<ControlChannel> accept(Fd socket, std::string peer, const Wait& wait);

  ControlChannel(ControlChannel&&) noexcept = default;
  ControlChannel& operator=(ControlChannel&&) noexcept = default;
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;
  ~ControlChannel() = default;

  Result<void> send(const Message& message, const Wait& wait);

  /// The next message. An Abort of the peer is returned like any other.
  Result<Message> receive(const Wait& wait);

  /// The next message, which must be a `T`: an Abort becomes Errc::peer_failed with its text in
  /// abort_text(), anything else Errc::protocol.
  template <class T>
  Result<T> expect(const Wait& wait) {
    auto message = receive(wait);
    if (!message) return tl::make_unexpected(message.error());
    if (auto* wanted = std::get_if<T>(&*message)) return std::move(*wanted);
    return tl::make_unexpected(unexpected(*message));
  }

  /// The peer's reason, printable; empty when it gave none.
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
