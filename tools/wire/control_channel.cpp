// SPDX-License-Identifier: MIT
#include "tools/wire/control_channel.hpp"

#include <algorithm>
#include <vector>

#include "hbmwire/host_port.hpp"

#include "tools/wire/codec.hpp"

namespace hbmwire::tools::wire {

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

std::optional<std::uint16_t> version_in(
    std::span<const std::byte, kPreambleBytes> preamble) noexcept {
  constexpr auto kMagicBytes = kControlMagic.size();
  const bool ours = std::ranges::equal(
      preamble.first<kMagicBytes>(), kControlMagic,
      [](std::byte theirs, std::uint8_t wanted) { return theirs == std::byte{wanted}; });
  if (!ours) return std::nullopt;
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(preamble[kMagicBytes]) << 8U |
                                    std::to_integer<unsigned>(preamble[kMagicBytes + 1]));
}

Result<ControlChannel> ControlChannel::accept(Fd socket, std::string peer, const Wait& wait) {
  ControlChannel channel(std::move(socket), std::move(peer));
  if (const auto greeted = channel.take_preamble(wait); !greeted) {
    Error error = greeted.error();
    // The peer may be a port probe, so the remedy to start its program again is left out.
    if (error.code == Errc::peer_failed) {
      error = make_error(Errc::peer_failed, Stage::connect,
                         "the connection was closed before its greeting", channel.peer());
    }
    return tl::make_unexpected(error);
  }
  return channel;
}

Result<ControlChannel> ControlChannel::connect(const std::string& host, std::uint16_t port,
                                               const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(Fd socket, tcp::connect(host, port, wait));
  ControlChannel channel(std::move(socket), join_host_port(host, port));
  HBMWIRE_TRY(tcp::send(channel.fd(), preamble(), wait, channel.peer()));
  HBMWIRE_TRY(channel.take_preamble(wait));
  return channel;
}

Result<void> ControlChannel::take_preamble(const Wait& wait) {
  std::array<std::byte, kPreambleBytes> theirs{};
  HBMWIRE_TRY(tcp::receive(fd(), theirs, wait, peer_));
  const auto version = version_in(theirs);
  if (!version) {
    return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                          "the peer speaks another protocol", peer_,
                                          Hint::not_hbmwire));
  }
  if (*version == kVersion) return {};
  return tl::make_unexpected(version_error(Stage::connect,
                                           "the peer speaks another version of the protocol", peer_,
                                           *version, kVersion));
}

Result<void> ControlChannel::send(const Message& message, const Wait& wait) {
  return tcp::send(fd(), encode(message), wait, peer_);
}

Result<Message> ControlChannel::receive(const Wait& wait) {
  std::array<std::byte, kFrameHeaderBytes> header{};
  HBMWIRE_TRY(tcp::receive(fd(), header, wait, peer_));
  Reader in(header);
  std::uint32_t length = 0;
  std::uint16_t type = 0;
  in.number(length);
  in.number(type);
  if (length > kMaxFrameBytes) {
    return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                          "the peer announced an oversized message", peer_,
                                          Hint::other_version));
  }
  std::vector<std::byte> payload(length);
  HBMWIRE_TRY(tcp::receive(fd(), payload, wait, peer_));
  auto message = decode(type, payload);
  if (message) return message;
  Error error = message.error();
  return tl::make_unexpected(make_error(error.code, error.stage, error.call, peer_, error.hint));
}

Error ControlChannel::unexpected(const Message& message) {
  if (const auto* abort = std::get_if<Abort>(&message)) {
    abort_text_ = printable(abort->text);
    return make_error(Errc::peer_failed, Stage::connect, "the peer gave up", peer_);
  }
  return make_error(Errc::protocol, Stage::connect, "the peer sent a message out of turn", peer_,
                    Hint::other_version);
}

}  // namespace hbmwire::tools::wire
