// SPDX-License-Identifier: MIT
#include "wire/control_messages.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "wire/codec.hpp"
#include "wire/endpoint_offer.hpp"
#include "wire/memory_key.hpp"

namespace hbmwire::wire {

namespace {

// The number of a message on the wire is its place in the variant, from 1 on: only append.
constexpr std::uint8_t kFirstControl = 1;

// 16: room for the fields of a message beside its longest one.
static_assert(kMaxKeyBytes + 16 <= kMaxControlBytes && kMaxRegionName + 16 <= kMaxControlBytes &&
              kMaxShakeBytes + 16 <= kMaxControlBytes && kMaxOfferBytes + 16 <= kMaxControlBytes);

void put(Writer& out, const Probe& message) { out.bytes(message.proof); }

void put(Writer& /*out*/, const Fence& /*message*/) {}

void put(Writer& /*out*/, const Fenced& /*message*/) {}

void put(Writer& /*out*/, const Farewell& /*message*/) {}

void put(Writer& out, const LookUp& message) {
  out.integer(message.id);
  out.text(message.name, kMaxRegionName);
}

void put(Writer& out, const Found& message) {
  out.integer(message.id);
  out.counted(message.key);
}

void put(Writer& out, const Shake& message) { out.counted(message.bytes); }

void put(Writer& out, const RailDown& message) { out.integer(message.rail); }

void put(Writer& out, const RailClosed& message) { out.integer(message.rail); }

void put(Writer& out, const IpcHandle& handle) {
  out.integer(static_cast<std::uint8_t>(handle.type));
  for (const char character : handle.pci_address) out.integer(static_cast<std::uint8_t>(character));
  for (const std::byte byte : handle.token) out.integer(std::to_integer<std::uint8_t>(byte));
  out.integer(handle.block_bytes);
  out.integer(handle.offset_bytes);
  out.integer(handle.length_bytes);
}

void put(Writer& out, const IpcCopy& message) {
  out.integer(message.id);
  out.integer(static_cast<std::uint8_t>(message.put ? 1 : 0));
  out.integer(message.token);
  out.integer(message.address);
  put(out, message.handle);
}

void put(Writer& out, const IpcCopied& message) {
  out.integer(message.id);
  out.integer(static_cast<std::uint8_t>(message.outcome));
}

void put(Writer& out, const SharePieces& message) {
  out.integer(message.address);
  put(out, message.handle);
}

void put(Writer& out, const PiecesShared& message) {
  out.integer(static_cast<std::uint8_t>(message.mapped ? 1 : 0));
}

void put(Writer& out, const QueuePairs& message) { out.counted(message.offer); }

void put(Writer& /*out*/, const QueuePairsReady& /*message*/) {}

LookUp get_look_up(Reader& in) {
  LookUp message;
  message.id = in.integer<std::uint32_t>();
  message.name = in.text(kMaxRegionName);
  return message;
}

Found get_found(Reader& in) {
  Found message;
  message.id = in.integer<std::uint32_t>();
  message.key = in.counted(kMaxKeyBytes);
  return message;
}

std::uint8_t get_rail(Reader& in) {
  const auto rail = in.integer<std::uint8_t>();
  if (rail == 0 || rail >= kMostRails) in.fail();
  return rail;
}

/// Does not check whether the handle names any memory: the domain that opens it does.
IpcHandle get_ipc_handle(Reader& in) {
  IpcHandle handle;
  const auto type = static_cast<MemoryType>(in.integer<std::uint8_t>());
  const bool known = has_ipc(type) || type == MemoryType::host;
  if (!known) in.fail();
  if (known) handle.type = type;
  std::ranges::transform(in.bytes<std::tuple_size_v<decltype(IpcHandle::pci_address)>>(),
                         handle.pci_address.begin(),
                         [](std::uint8_t byte) { return static_cast<char>(byte); });
  std::ranges::transform(in.bytes<IpcHandle::kTokenBytes>(), handle.token.begin(),
                         [](std::uint8_t byte) { return std::byte{byte}; });
  handle.block_bytes = in.integer<std::uint64_t>();
  handle.offset_bytes = in.integer<std::uint64_t>();
  handle.length_bytes = in.integer<std::uint64_t>();
  if (handle.length_bytes == 0) in.fail();
  return handle;
}

IpcCopy get_ipc_copy(Reader& in) {
  IpcCopy message;
  message.id = in.integer<std::uint32_t>();
  const auto put = in.integer<std::uint8_t>();
  message.put = put == 1;
  message.token = in.integer<std::uint64_t>();
  message.address = in.integer<std::uint64_t>();
  message.handle = get_ipc_handle(in);
  if (put > 1 || message.token == 0) in.fail();
  return message;
}

IpcCopied get_ipc_copied(Reader& in) {
  using Outcome = IpcCopied::Outcome;
  IpcCopied message;
  message.id = in.integer<std::uint32_t>();
  const auto outcome = in.integer<std::uint8_t>();
  if (outcome > static_cast<std::uint8_t>(Outcome::failed)) in.fail();
  message.outcome = static_cast<Outcome>(outcome & 3U);  // so an enumerator, even after fail()
  return message;
}

SharePieces get_share_pieces(Reader& in) {
  SharePieces message;
  message.address = in.integer<std::uint64_t>();
  message.handle = get_ipc_handle(in);
  if (message.address + message.handle.length_bytes <= message.address) in.fail();
  return message;
}

PiecesShared get_pieces_shared(Reader& in) {
  const auto mapped = in.integer<std::uint8_t>();
  if (mapped > 1) in.fail();
  return {mapped == 1};
}

std::optional<ControlMessage> get(Reader& in) {
  switch (in.integer<std::uint8_t>()) {
    case kFirstControl:
      return Probe{in.bytes<std::tuple_size_v<decltype(Probe::proof)>>()};
    case kFirstControl + 1:
      return Fence{};
    case kFirstControl + 2:
      return Fenced{};
    case kFirstControl + 3:
      return Farewell{};
    case kFirstControl + 4:
      return get_look_up(in);
    case kFirstControl + 5:
      return get_found(in);
    case kFirstControl + 6:
      return Shake{in.counted(kMaxShakeBytes)};
    case kFirstControl + 7:
      return RailDown{get_rail(in)};
    case kFirstControl + 8:
      return RailClosed{get_rail(in)};
    case kFirstControl + 9:
      return get_ipc_copy(in);
    case kFirstControl + 10:
      return get_ipc_copied(in);
    case kFirstControl + 11:
      return get_share_pieces(in);
    case kFirstControl + 12:
      return get_pieces_shared(in);
    case kFirstControl + 13:
      return QueuePairs{in.counted(kMaxOfferBytes)};
    case kFirstControl + 14:
      return QueuePairsReady{};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<std::byte> encode(const ControlMessage& message) {
  Writer out;
  out.integer(static_cast<std::uint8_t>(message.index() + kFirstControl));
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
