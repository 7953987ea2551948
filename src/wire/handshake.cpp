// SPDX-License-Identifier: MIT
#include "wire/handshake.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "wire/codec.hpp"
#include "wire/dial.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::wire {

namespace {

// Eight bytes that no other protocol sends, our own of the tools among them.
constexpr std::array<std::uint8_t, 8> kMagic{'h', 'b', 'm', 'w', '-', 'e', 'p', '\n'};
constexpr std::size_t kPreambleBytes = 16;
constexpr std::size_t kFrameHeaderBytes = 4;  // length u16, type u16

enum class Frame : std::uint16_t { offer = 1, ready = 2 };

tl::unexpected<Error> foreign(const char* why, std::string_view peer, Hint hint) {
  return tl::make_unexpected(make_error(Errc::protocol, Stage::connect, why, peer, hint));
}

std::vector<std::byte> preamble() {
  Writer out;
  out.bytes(kMagic);
  out.integer(kEndpointVersion);
  out.integer(std::uint16_t{0});
  out.integer(std::uint32_t{0});
  return out.take();
}

Result<void> check_preamble(std::span<const std::byte> theirs, std::string_view peer) {
  Reader in(theirs);
  if (in.bytes<kMagic.size()>() != kMagic)
    return foreign("the peer speaks another protocol", peer, Hint::not_hbmwire);
  if (in.integer<std::uint16_t>() != kEndpointVersion)
    return foreign("the peer speaks another version of the protocol", peer, Hint::other_version);
  return {};
}

Result<void> send_frame(int fd, Frame type, std::span<const std::byte> payload, const Wait& wait,
                        std::string_view peer) {
  Writer header;
  header.integer(static_cast<std::uint16_t>(payload.size()));
  header.integer(static_cast<std::uint16_t>(type));
  std::vector<std::byte> frame = header.take();
  frame.insert(frame.end(), payload.begin(), payload.end());
  return send_all(fd, frame, wait, peer);
}

Result<std::vector<std::byte>> receive_frame(int fd, Frame type, const Wait& wait,
                                             std::string_view peer) {
  std::array<std::byte, kFrameHeaderBytes> header{};
  HBMWIRE_TRY(receive_all(fd, header, wait, peer));
  Reader in(header);
  const std::size_t length = in.integer<std::uint16_t>();
  const auto got = in.integer<std::uint16_t>();
  if (length > kMaxOfferBytes || got != static_cast<std::uint16_t>(type))
    return foreign("the peer sent a message out of turn", peer, Hint::other_version);
  std::vector<std::byte> payload(length);
  HBMWIRE_TRY(receive_all(fd, payload, wait, peer));
  return payload;
}

}  // namespace

Result<EndpointOffer> Handshake::exchange(const EndpointOffer& own, const Wait& wait) {
  const int fd = socket_.get();
  HBMWIRE_TRY(send_all(fd, preamble(), wait, peer_));
  std::array<std::byte, kPreambleBytes> theirs{};
  HBMWIRE_TRY(receive_all(fd, theirs, wait, peer_));
  HBMWIRE_TRY(check_preamble(theirs, peer_));
  HBMWIRE_TRY(send_frame(fd, Frame::offer, encode(own), wait, peer_));
  HBMWIRE_TRY_ASSIGN(const auto payload, receive_frame(fd, Frame::offer, wait, peer_));
  auto offer = decode_offer(payload);
  if (offer) return offer;
  const Error& error = offer.error();
  return tl::make_unexpected(make_error(error.code, error.stage, error.call, peer_, error.hint));
}

Result<void> Handshake::ready(const Wait& wait) {
  HBMWIRE_TRY(send_frame(socket_.get(), Frame::ready, {}, wait, peer_));
  HBMWIRE_TRY(receive_frame(socket_.get(), Frame::ready, wait, peer_));
  return {};
}

Result<Handshake> dial_endpoint(std::string_view where, const Wait& wait) {
  const std::size_t colon = where.rfind(':');
  std::string_view host = where.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const std::string_view digits = colon == std::string_view::npos ? "" : where.substr(colon + 1);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || failure != std::errc{} || end != digits.data() + digits.size() || port == 0) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                          "a peer is HOST:PORT, or [IPV6]:PORT", where));
  }
  std::string peer(where);
  HBMWIRE_TRY_ASSIGN(Fd socket, dial(std::string(host), port, peer, wait));
  return Handshake(std::move(socket), std::move(peer), Handshake::Side::connecting);
}

}  // namespace hbmwire::wire
