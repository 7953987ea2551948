// SPDX-License-Identifier: MIT
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "hbmwire/wire.hpp"

#include "base/guarded.hpp"
#include "wire/codec.hpp"
#include "wire/preamble.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::wire {

namespace {

constexpr std::array<std::uint8_t, 8> kControlMagic{'h', 'b', 'm', 'w', 'i', 'r', 'e', '\n'};

}  // namespace

std::array<std::byte, kPreambleBytes> preamble() noexcept {
  std::array<std::byte, kPreambleBytes> bytes{};
  std::ranges::transform(kControlMagic, bytes.begin(), [](std::uint8_t c) { return std::byte{c}; });
  bytes[kControlMagic.size()] = std::byte{kVersion >> 8};
  bytes[kControlMagic.size() + 1] = std::byte{kVersion & 0xff};
  return bytes;
}

Greeted look_at_preamble(std::span<const std::byte, kPreambleBytes> theirs) noexcept {
  const auto ours = preamble();
  const auto same = [&](std::size_t from, std::size_t end) {
    return std::equal(ours.begin() + static_cast<std::ptrdiff_t>(from),
                      ours.begin() + static_cast<std::ptrdiff_t>(end),
                      theirs.begin() + static_cast<std::ptrdiff_t>(from));
  };
  if (!same(0, kControlMagic.size())) return Greeted::other_protocol;
  return same(kControlMagic.size(), kControlMagic.size() + 2) ? Greeted::same_version
                                                              : Greeted::other_version;
}

Result<ControlChannel> ControlChannel::accept(Fd socket, std::string peer, const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<ControlChannel> {
    ControlChannel channel(std::move(socket), std::move(peer));
    HBMWIRE_TRY(tune(channel.fd(), channel.peer()));
    if (const auto greeted = channel.take_preamble(wait); !greeted) {
      Error error = greeted.error();
      // A port probe has nothing to be started again.
      if (error.code == Errc::peer_failed) {
        error = make_error(Errc::peer_failed, Stage::connect,
                           "the connection was closed before its greeting", channel.peer());
      }
      return tl::make_unexpected(error);
    }
    return channel;
  });
}

Result<void> ControlChannel::take_preamble(const Wait& wait) {
  std::array<std::byte, kPreambleBytes> theirs{};
  HBMWIRE_TRY(receive_all(fd(), theirs, wait, peer_));
  switch (look_at_preamble(theirs)) {
    case Greeted::same_version:
      return {};
    case Greeted::other_version:
      return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                            "the peer speaks another version of the protocol",
                                            peer_, Hint::other_version));
    case Greeted::other_protocol:
      break;
  }
  return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                        "the peer speaks another protocol", peer_,
                                        Hint::not_hbmwire));
}

Result<void> ControlChannel::send(const Message& message, const Wait& wait) {
  return guarded(Stage::connect,
                 [&]() -> Result<void> { return send_all(fd(), encode(message), wait, peer_); });
}

Result<Message> ControlChannel::receive(const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<Message> {
    std::array<std::byte, kFrameHeaderBytes> header{};
    HBMWIRE_TRY(receive_all(fd(), header, wait, peer_));
    Reader in(header);
    const std::size_t length = in.integer<std::uint32_t>();
    const auto type = in.integer<std::uint16_t>();
    if (length > kMaxFrameBytes) {
      return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                            "the peer announced an oversized message", peer_,
                                            Hint::other_version));
    }
    std::vector<std::byte> payload(length);
    HBMWIRE_TRY(receive_all(fd(), payload, wait, peer_));
    auto message = decode(type, payload);
    if (message) return message;
    Error error = message.error();
    return tl::make_unexpected(make_error(error.code, error.stage, error.call, peer_, error.hint));
  });
}

Error ControlChannel::unexpected(const Message& message) {
  if (const auto* abort = std::get_if<Abort>(&message)) {
    abort_text_ = printable(abort->text);
    return make_error(Errc::peer_failed, Stage::connect, "the peer gave up", peer_);
  }
  return make_error(Errc::protocol, Stage::connect, "the peer sent a message out of turn", peer_,
                    Hint::other_version);
}

}  // namespace hbmwire::wire
