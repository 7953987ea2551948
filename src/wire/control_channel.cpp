// SPDX-License-Identifier: MIT
#include <poll.h>

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
constexpr std::size_t kFrameHeaderBytes = 6;  // length u32, type u16

std::vector<std::byte> preamble() {
  Writer out;
  out.bytes(kControlMagic);
  out.integer(kVersion);
  out.integer(std::uint32_t{0});
  out.integer(std::uint16_t{0});
  return out.take();
}

}  // namespace

Result<ControlChannel> ControlChannel::accept(Fd socket, std::string peer, const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<ControlChannel> {
    ControlChannel channel(std::move(socket), std::move(peer));
    HBMWIRE_TRY(tune(channel.fd(), channel.peer()));
    if (const auto greeted = channel.exchange_preambles(wait); !greeted) {
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

Result<void> ControlChannel::exchange_preambles(const Wait& wait) {
  HBMWIRE_TRY(send_all(fd(), preamble(), wait, peer_));
  std::array<std::byte, kPreambleBytes> theirs{};
  HBMWIRE_TRY(receive_all(fd(), theirs, wait, peer_));
  Reader in(theirs);
  if (in.bytes<kControlMagic.size()>() != kControlMagic) {
    return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                          "the peer speaks another protocol", peer_,
                                          Hint::not_hbmwire));
  }
  const auto version = in.integer<std::uint16_t>();
  if (version != kVersion) {
    Error error =
        make_error(Errc::protocol, Stage::connect,
                   "the peer speaks another version of the protocol", peer_, Hint::other_version);
    return tl::make_unexpected(error);
  }
  return {};
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
