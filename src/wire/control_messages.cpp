// SPDX-License-Identifier: MIT
#include "wire/control_messages.hpp"

#include <optional>
#include <tuple>

#include "wire/codec.hpp"
#include "wire/endpoint_offer.hpp"
#include "wire/memory_key.hpp"

namespace hbmwire::wire {

namespace {

// A message's number on the wire is its place in the variant, from 1 on: append only.
constexpr std::uint8_t kFirstType = 1;
static_assert(kMaxKeyBytes + 16 <= kMaxControlBytes && kMaxRegionName + 16 <= kMaxControlBytes);

void put(Writer& out, const Hail& message) { out.bytes(message.proof); }

void put(Writer& /*out*/, const Fence& /*message*/) {}

void put(Writer& /*out*/, const Fenced& /*message*/) {}

void put(Writer& /*out*/, const Farewell& /*message*/) {}

void put(Writer& out, const LookUp& message) {
  out.integer(message.id);
  out.text(message.name, kMaxRegionName);
}

void put(Writer& out, const Found& message) {
  out.integer(message.id);
  out.integer(static_cast<std::uint16_t>(message.key.size()));
  for (const std::byte byte : message.key) out.integer(std::to_integer<std::uint8_t>(byte));
}

void put(Writer& out, const Shake& message) {
  out.integer(static_cast<std::uint16_t>(message.bytes.size()));
  for (const std::byte byte : message.bytes) out.integer(std::to_integer<std::uint8_t>(byte));
}

void put(Writer& out, const RailDown& message) { out.integer(message.rail); }

void put(Writer& out, const RailClosed& message) { out.integer(message.rail); }

/// Bytes after their count, at most `limit` of them.
std::vector<std::byte> get_bytes(Reader& in, std::size_t limit) {
  const std::size_t length = in.integer<std::uint16_t>();
  std::vector<std::byte> bytes;
  if (length > limit) {
    in.fail();
    return bytes;
  }
  for (std::size_t i = 0; i < length; ++i)
    bytes.push_back(static_cast<std::byte>(in.integer<std::uint8_t>()));
  return bytes;
}

LookUp get_look_up(Reader& in) {
  LookUp message;
  message.id = in.integer<std::uint32_t>();
  message.name = in.text(kMaxRegionName);
  return message;
}

Found get_found(Reader& in) {
  Found message;
  message.id = in.integer<std::uint32_t>();
  message.key = get_bytes(in, kMaxKeyBytes);
  return message;
}

std::uint8_t get_rail(Reader& in) {
  const auto rail = in.integer<std::uint8_t>();
  if (rail == 0 || rail >= kMostRails) in.fail();
  return rail;
}

std::optional<ControlMessage> get(Reader& in) {
  switch (in.integer<std::uint8_t>()) {
    case kFirstType:
      return Hail{in.bytes<std::tuple_size_v<decltype(Hail::proof)>>()};
    case kFirstType + 1:
      return Fence{};
    case kFirstType + 2:
      return Fenced{};
    case kFirstType + 3:
      return Farewell{};
    case kFirstType + 4:
      return get_look_up(in);
    case kFirstType + 5:
      return get_found(in);
    case kFirstType + 6:
      return Shake{get_bytes(in, kMaxShakeBytes)};
    case kFirstType + 7:
      return RailDown{get_rail(in)};
    case kFirstType + 8:
      return RailClosed{get_rail(in)};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<std::byte> encode(const ControlMessage& message) {
  Writer out;
  out.integer(static_cast<std::uint8_t>(message.index() + kFirstType));
  std::visit([&](const auto& kind) { put(out, kind); }, message);
  return out.take();
}

Result<ControlMessage> decode_control(std::span<const std::byte> bytes) {
  Reader in(bytes);
  auto message = get(in);
  if (message && in.complete()) return std::move(*message);
  return tl::make_unexpected(make_error(Errc::protocol, Stage::complete,
                                        "the peer's control message is malformed", {},
                                        Hint::other_version));
}

}  // namespace hbmwire::wire
