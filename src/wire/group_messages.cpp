// SPDX-License-Identifier: MIT
#include "wire/group_messages.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "wire/codec.hpp"
#include "wire/memory_key.hpp"

namespace hbmwire::wire {

namespace {

// Both kinds of hello begin with these: "hbmg" and "hbmp" in ASCII.
constexpr std::uint32_t kGroupMagic = 0x68626d67;
constexpr std::uint32_t kPeerMagic = 0x68626d70;

constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
constexpr std::size_t kMostHostBytes = 255;
constexpr std::size_t kMostAddressBytes = 300;

void put(Writer& out, const GroupMember& member) {
  out.integer(member.rank);
  out.text(member.host, kMostHostBytes);
  const auto count = std::min(member.addresses.size(), kMostGroupAddresses);
  out.integer(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.text(member.addresses[i], kMostAddressBytes);
}

void put(Writer& out, const std::vector<std::uint32_t>& ranks) {
  out.integer(static_cast<std::uint16_t>(ranks.size()));
  for (const std::uint32_t rank : ranks) out.integer(rank);
}

void put(Writer& out, const Join& message) {
  out.integer(message.epoch);
  put(out, message.member);
}

void put(Writer& out, const Joined& message) {
  out.integer(message.group);
  out.integer(message.epoch);
  out.integer(message.rank);
  out.integer(static_cast<std::uint16_t>(message.members.size()));
  for (const GroupMember& member : message.members) put(out, member);
}

void put(Writer& out, const Missing& message) { put(out, message.ranks); }

void put(Writer& out, const Give& message) {
  out.integer(message.call);
  out.integer(static_cast<std::uint8_t>(message.among_present));
  out.integer(message.patience_ms);
  out.block(message.bytes);
}

void put(Writer& out, const Given& message) {
  out.integer(message.call);
  out.integer(static_cast<std::uint16_t>(message.bytes.size()));
  for (const auto& bytes : message.bytes) {
    out.integer(static_cast<std::uint8_t>(bytes.has_value()));
    if (bytes) out.block(*bytes);
  }
}

void put(Writer& out, const Gone& message) { put(out, message.ranks); }

void put(Writer& /*out*/, const Leave& /*message*/) {}

void put(Writer& out, const Refused& message) {
  out.integer(static_cast<std::uint8_t>(message.why));
}

GroupMember get_member(Reader& in) {
  GroupMember member;
  member.rank = in.integer<std::uint32_t>();
  member.host = in.text(kMostHostBytes);
  const std::size_t count = in.integer<std::uint8_t>();
  if (count > kMostGroupAddresses) in.fail();
  for (std::size_t i = 0; i < std::min(count, kMostGroupAddresses); ++i)
    member.addresses.push_back(in.text(kMostAddressBytes));
  return member;
}

/// How many elements follow; 0 and failure if there are more than there can be ranks.
std::size_t get_count(Reader& in) {
  const std::size_t count = in.integer<std::uint16_t>();
  if (count <= kMostRanks) return count;
  in.fail();
  return 0;
}

std::vector<std::uint32_t> get_ranks(Reader& in) {
  std::vector<std::uint32_t> ranks(get_count(in));
  for (std::uint32_t& rank : ranks) {
    rank = in.integer<std::uint32_t>();
    if (rank >= kMostRanks) in.fail();
  }
  return ranks;
}

bool get_flag(Reader& in) {
  const auto value = in.integer<std::uint8_t>();
  if (value > 1) in.fail();
  return value == 1;
}

Join get_join(Reader& in) {
  Join message;
  message.epoch = in.integer<std::uint32_t>();
  message.member = get_member(in);
  return message;
}

Joined get_joined(Reader& in) {
  Joined message;
  message.group = in.integer<std::uint64_t>();
  message.epoch = in.integer<std::uint32_t>();
  message.rank = in.integer<std::uint32_t>();
  const std::size_t count = get_count(in);
  for (std::size_t i = 0; i < count; ++i) {
    message.members.push_back(get_member(in));
    if (message.members.back().rank != i) in.fail();
  }
  if (message.rank >= count) in.fail();
  return message;
}

Give get_give(Reader& in) {
  Give message;
  message.call = in.integer<std::uint32_t>();
  message.among_present = get_flag(in);
  message.patience_ms = in.integer<std::uint32_t>();
  message.bytes = in.block(kMostRankBytes);
  return message;
}

Given get_given(Reader& in) {
  Given message;
  message.call = in.integer<std::uint32_t>();
  message.bytes.resize(get_count(in));
  for (auto& bytes : message.bytes) {
    if (get_flag(in)) bytes = in.block(kMostRankBytes);
  }
  return message;
}

Refused get_refused(Reader& in) {
  const auto why = in.integer<std::uint8_t>();
  const bool known = why >= 1 && why <= static_cast<std::uint8_t>(Refused::Why::too_much);
  if (!known) in.fail();
  return {known ? static_cast<Refused::Why>(why) : Refused::Why::full};
}

// A message's number on the wire is its place in the variant, from 1 on: append only.
std::optional<GroupMessage> get_group_message(Reader& in) {
  switch (in.integer<std::uint8_t>()) {
    case 1:
      return get_join(in);
    case 2:
      return get_joined(in);
    case 3:
      return Missing{get_ranks(in)};
    case 4:
      return get_give(in);
    case 5:
      return get_given(in);
    case 6:
      return Gone{get_ranks(in)};
    case 7:
      return Leave{};
    case 8:
      return get_refused(in);
    default:
      return std::nullopt;
  }
}

tl::unexpected<Error> malformed_group_message() {
  return tl::make_unexpected(make_error(Errc::protocol, Stage::complete,
                                        "the message of the group is malformed", {},
                                        Hint::other_version));
}

/// Whether it is a hello of this kind and version.
bool begins_hello(Reader& in, std::uint32_t magic) {
  const auto begin = in.integer<std::uint32_t>();
  const auto version = in.integer<std::uint16_t>();
  return begin == magic && version == kGroupVersion;
}

}  // namespace

std::vector<std::byte> encode(const GroupMessage& message) {
  Writer out;
  out.integer(static_cast<std::uint8_t>(message.index() + 1));
  std::visit([&](const auto& kind) { put(out, kind); }, message);
  return out.take();
}

std::vector<std::byte> encode(const GroupHello& hello) {
  Writer out;
  out.integer(kGroupMagic);
  out.integer(kGroupVersion);
  out.integer(hello.size);
  out.integer(hello.rank.value_or(kNoRank));
  return out.take();
}

std::vector<std::byte> encode(const PeerHello& hello) {
  Writer out;
  out.integer(kPeerMagic);
  out.integer(kGroupVersion);
  out.integer(hello.group);
  out.integer(hello.rank);
  out.integer(hello.use);
  return out.take();
}

std::vector<std::byte> encode(const BroadcastOffer& offer) {
  Writer out;
  out.integer(offer.length_bytes);
  out.integer(offer.piece_bytes);
  out.integer(offer.root);
  out.integer(static_cast<std::uint8_t>(offer.verify));
  out.counted(offer.key);
  return out.take();
}

std::vector<std::byte> encode(const BroadcastEnd& end) {
  Writer out;
  out.integer(static_cast<std::uint8_t>(end.state));
  out.bytes(end.digest);
  return out.take();
}

Result<GroupMessage> decode_group(std::span<const std::byte> bytes) {
  Reader in(bytes);
  auto message = get_group_message(in);
  if (message && in.complete()) return std::move(*message);
  return malformed_group_message();
}

Result<BroadcastOffer> decode_broadcast_offer(std::span<const std::byte> bytes) {
  Reader in(bytes);
  BroadcastOffer offer;
  offer.length_bytes = in.integer<std::uint64_t>();
  offer.piece_bytes = in.integer<std::uint64_t>();
  offer.root = in.integer<std::uint32_t>();
  offer.verify = get_flag(in);
  offer.key = in.counted(kMaxKeyBytes);
  if (in.complete()) return offer;
  return malformed_group_message();
}

Result<BroadcastEnd> decode_broadcast_end(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const auto state = in.integer<std::uint8_t>();
  BroadcastEnd end;
  end.digest = in.bytes<std::tuple_size_v<decltype(BroadcastEnd::digest)>>();
  const bool known =
      state >= 1 && state <= static_cast<std::uint8_t>(BroadcastEnd::State::not_reached);
  if (!known || !in.complete()) return malformed_group_message();
  end.state = static_cast<BroadcastEnd::State>(state);
  return end;
}

std::optional<GroupHello> decode_group_hello(std::span<const std::byte> bytes) {
  Reader in(bytes);
  if (!begins_hello(in, kGroupMagic)) return std::nullopt;
  GroupHello hello;
  hello.size = in.integer<std::uint32_t>();
  if (const auto rank = in.integer<std::uint32_t>(); rank != kNoRank) hello.rank = rank;
  if (!in.complete() || hello.size == 0 || hello.size > kMostRanks) return std::nullopt;
  return hello;
}

std::optional<PeerHello> decode_peer_hello(std::span<const std::byte> bytes) {
  Reader in(bytes);
  if (!begins_hello(in, kPeerMagic)) return std::nullopt;
  PeerHello hello;
  hello.group = in.integer<std::uint64_t>();
  hello.rank = in.integer<std::uint32_t>();
  hello.use = in.integer<std::uint8_t>();
  if (!in.complete()) return std::nullopt;
  return hello;
}

}  // namespace hbmwire::wire
