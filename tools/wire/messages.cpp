// SPDX-License-Identifier: MIT
#include "tools/wire/messages.hpp"

#include <algorithm>
#include <utility>

#include "tools/wire/fields.hpp"
#include "tools/wire/perf_fields.hpp"

namespace hbmwire::tools::wire {

namespace {

constexpr std::size_t kMaxFileNameBytes = 255;  // of a file name (NAME_MAX)
constexpr std::size_t kMaxMemoryBytes = 64;     // of a memory's or operation's name

// The number of a message on the wire is its place in the variant, counted from 1. Append only.
constexpr std::uint16_t kFirstMessage = 1;

void fields(auto& codec, Of<Hello> auto& m) {
  codec.choice(m.job, Hello::Job::file);
  codec.number(m.size_bytes);
  codec.number(m.iterations);
  codec.number(m.seed);
  codec.number(m.file_bytes);
  codec.text(m.file_name, kMaxFileNameBytes);
  codec.text(m.memory, kMaxMemoryBytes);
}

void fields(auto& codec, Of<Welcome> auto& m) {
  codec.number(m.size_bytes);
  codec.text(m.memory, kMaxMemoryBytes);
}

void fields(auto& codec, Of<Address> auto& m) {
  fields(codec, m.connection);
  fields(codec, m.memory);
}

void fields(auto& codec, Of<Ready> auto& m) { codec.number(m.step); }

void fields(auto& codec, Of<Verdict> auto& m) {
  codec.text(m.operation, kMaxMemoryBytes);
  codec.number(m.iteration);
  codec.number(m.bytes);
  codec.number(m.wrong_bytes);
  codec.number(m.offset_bytes);
  codec.number(m.expected);
  codec.number(m.got);
}

void fields(auto& codec, Of<PieceSaved> auto& m) { codec.number(m.index); }

void fields(auto& codec, Of<FileDone> auto& m) {
  codec.bytes(m.digest);
  codec.number(m.bytes);
  codec.number(m.nanoseconds);
}

void fields(auto& codec, Of<Abort> auto& m) { codec.text(m.text, kMaxTextBytes); }

void fields(auto& /*codec*/, Of<Bye> auto& /*m*/) {}

tl::unexpected<Error> refuse(const char* why) {
  return tl::make_unexpected(
      make_error(Errc::protocol, Stage::connect, why, {}, Hint::other_version));
}

/// Decodes the alternative of the variant with the number `type`.
template <std::size_t Index = 0>
Result<Message> decode_alternative(std::uint16_t type, Reader& in) {
  if constexpr (Index < std::variant_size_v<Message>) {
    if (type != kFirstMessage + Index) return decode_alternative<Index + 1>(type, in);
    std::variant_alternative_t<Index, Message> message;
    fields(in, message);
    if (in.complete()) return Message(std::move(message));
    return refuse("the peer sent a malformed message");
  } else {
    return refuse("the peer sent a message of unknown type");
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
  std::visit([&](const auto& m) { fields(payload, m); }, message);
  const std::vector<std::byte> body = payload.take();
  Writer frame;
  frame.number(static_cast<std::uint32_t>(body.size()));
  frame.number(static_cast<std::uint16_t>(kFirstMessage + message.index()));
  std::vector<std::byte> bytes = frame.take();
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

Result<Message> decode(std::uint16_t type, std::span<const std::byte> payload) {
  Reader in(payload);
  return decode_alternative(type, in);
}

std::string printable(std::string_view foreign) {
  std::string text(foreign);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace hbmwire::tools::wire
