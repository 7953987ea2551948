// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "hbmwire/wire.hpp"

#include "base/guarded.hpp"
#include "wire/address_codec.hpp"
#include "wire/codec.hpp"
#include "wire/perf_codec.hpp"

namespace hbmwire::wire {

namespace {

constexpr std::size_t kMaxFileNameBytes = 255;  // of a file name (NAME_MAX)
constexpr std::size_t kMaxMemoryBytes = 64;     // of a memory's or operation's name

// A message's number on the wire is its place in the variant, from 1 on: append only.
constexpr std::uint16_t kFirstMessage = 1;

void put(Writer& out, const Hello& m) {
  out.integer(static_cast<std::uint8_t>(m.job));
  out.integer(m.size_bytes);
  out.integer(m.iterations);
  out.integer(m.seed);
  out.integer(m.file_bytes);
  out.text(m.file_name, kMaxFileNameBytes);
  out.text(m.memory, kMaxMemoryBytes);
}

Hello get(Reader& in, std::in_place_type_t<Hello> /*tag*/) {
  Hello m;
  const auto job = in.integer<std::uint8_t>();
  if (job != static_cast<std::uint8_t>(Hello::Job::exchange) &&
      job != static_cast<std::uint8_t>(Hello::Job::file)) {
    in.fail();
  }
  m.job = static_cast<Hello::Job>(job);
  m.size_bytes = in.integer<std::uint64_t>();
  m.iterations = in.integer<std::uint32_t>();
  m.seed = in.integer<std::uint32_t>();
  m.file_bytes = in.integer<std::uint64_t>();
  m.file_name = in.text(kMaxFileNameBytes);
  m.memory = in.text(kMaxMemoryBytes);
  return m;
}

void put(Writer& out, const Welcome& m) {
  out.integer(m.size_bytes);
  out.text(m.memory, kMaxMemoryBytes);
}

Welcome get(Reader& in, std::in_place_type_t<Welcome> /*tag*/) {
  Welcome m;
  m.size_bytes = in.integer<std::uint64_t>();
  m.memory = in.text(kMaxMemoryBytes);
  return m;
}

void put(Writer& out, const Address& m) {
  put(out, m.connection);
  out.integer(m.memory.address);
  out.integer(m.memory.length_bytes);
  out.integer(m.memory.remote_key);
}

Address get(Reader& in, std::in_place_type_t<Address> /*tag*/) {
  Address m;
  m.connection = get_connection_address(in);
  m.memory.address = in.integer<std::uint64_t>();
  m.memory.length_bytes = in.integer<std::uint64_t>();
  m.memory.remote_key = in.integer<std::uint32_t>();
  if (m.memory.length_bytes > ~std::uint64_t{0} - m.memory.address) in.fail();
  return m;
}

void put(Writer& out, const Ready& m) { out.integer(m.step); }

Ready get(Reader& in, std::in_place_type_t<Ready> /*tag*/) { return {in.integer<std::uint16_t>()}; }

void put(Writer& out, const Verdict& m) {
  out.text(m.operation, kMaxMemoryBytes);
  out.integer(m.iteration);
  out.integer(m.bytes);
  out.integer(m.wrong_bytes);
  out.integer(m.offset_bytes);
  out.integer(m.expected);
  out.integer(m.got);
}

Verdict get(Reader& in, std::in_place_type_t<Verdict> /*tag*/) {
  Verdict m;
  m.operation = in.text(kMaxMemoryBytes);
  m.iteration = in.integer<std::uint32_t>();
  m.bytes = in.integer<std::uint64_t>();
  m.wrong_bytes = in.integer<std::uint64_t>();
  m.offset_bytes = in.integer<std::uint64_t>();
  m.expected = in.integer<std::uint8_t>();
  m.got = in.integer<std::uint8_t>();
  return m;
}

void put(Writer& out, const PieceSaved& m) { out.integer(m.index); }

PieceSaved get(Reader& in, std::in_place_type_t<PieceSaved> /*tag*/) {
  return {in.integer<std::uint64_t>()};
}

void put(Writer& out, const FileDone& m) {
  out.bytes(m.digest);
  out.integer(m.bytes);
  out.integer(m.nanoseconds);
}

FileDone get(Reader& in, std::in_place_type_t<FileDone> /*tag*/) {
  FileDone m;
  m.digest = in.bytes<kDigestBytes>();
  m.bytes = in.integer<std::uint64_t>();
  m.nanoseconds = in.integer<std::uint64_t>();
  return m;
}

void put(Writer& out, const Abort& m) { out.text(m.text, kMaxTextBytes); }

Abort get(Reader& in, std::in_place_type_t<Abort> /*tag*/) { return {in.text(kMaxTextBytes)}; }

void put(Writer& /*out*/, const Bye& /*m*/) {}

Bye get(Reader& /*in*/, std::in_place_type_t<Bye> /*tag*/) { return {}; }

/// Decodes the alternative of the variant whose number is `type`.
template <std::size_t Index = 0>
Result<Message> decode_alternative(std::uint16_t type, Reader& in) {
  if constexpr (Index < std::variant_size_v<Message>) {
    if (type != kFirstMessage + Index) return decode_alternative<Index + 1>(type, in);
    Message message = get(in, std::in_place_type<std::variant_alternative_t<Index, Message>>);
    if (in.complete()) return message;
    return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                          "the peer sent a malformed message", {},
                                          Hint::other_version));
  } else {
    return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                          "the peer sent a message of unknown type", {},
                                          Hint::other_version));
  }
}

}  // namespace

std::string_view name_of(const Message& message) noexcept {
  static constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames{
      "hello", "welcome", "address",      "ready",     "verdict",     "piece saved", "file done",
      "abort", "bye",     "perf request", "perf side", "perf queues", "perf report"};
  return kNames.at(message.index());
}

std::vector<std::byte> encode(const Message& message) {
  Writer payload;
  std::visit([&](const auto& m) { put(payload, m); }, message);
  const std::vector<std::byte> body = payload.take();
  Writer frame;
  frame.integer(static_cast<std::uint32_t>(body.size()));
  frame.integer(static_cast<std::uint16_t>(kFirstMessage + message.index()));
  std::vector<std::byte> bytes = frame.take();
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

Result<Message> decode(std::uint16_t type, std::span<const std::byte> payload) {
  return guarded(Stage::connect, [&] {
    Reader in(payload);
    return decode_alternative(type, in);
  });
}

std::string printable(std::string_view foreign) {
  std::string text(foreign);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace hbmwire::wire
