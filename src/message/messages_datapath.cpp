// SPDX-License-Identifier: MIT
#include <array>
#include <utility>

#include "base/probes.hpp"
#include "endpoint/endpoint_state.hpp"
#include "message/messages.hpp"

namespace hbmwire::detail {

using transport::Operation;
using wire::MessageHeader;

Result<Transfer> Messages::send(const Slice& from, bool tagged, std::uint64_t tag,
                                const SendOptions& options) {
  if (endpoint_.phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(endpoint_.not_ready());
  Operation operation;
  HBMWIRE_TRY(endpoint_.checks.message(operation, from));
  TransferState* const transfer = endpoint_.worker->transfers.take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(endpoint_.worker->transfers.none_left(endpoint_.peer));
  operation.fenced = endpoint_.sends.take_fence();
  const RegionState* const region = operation.length == 0 ? nullptr : &state_of(*from.region);
  const bool host = region == nullptr || region->path == Path::host;
  const bool at_once = operation.length == 0 || (host && operation.length <= eager_bytes_);
  operation.inlined =
      at_once && endpoint_.sends.may_be_copied() &&
      operation.length + wire::kMessageHeaderBytes <= endpoint_.sends.inline_bytes();
  transfer->protocol = operation.inlined ? Protocol::inlined
                       : at_once         ? Protocol::eager
                                         : Protocol::rendezvous_read;
  transfer->tagged = tagged;
  transfer->tag = tag;
  transfer->region = region;
  endpoint_.set_route(*transfer, region, nullptr);
  endpoint_.checks.note(from);
  transfer->answered = !at_once || options.level != CompletionLevel::sent;
  transfer->operation = operation;
  transfer->begin(&endpoint_, TransferKind::send, operation.length);
  HBMWIRE_PROBE4(ask, transfer, transfer->connection, transfer->kind, transfer->bytes);
  if (at_once && host && endpoint_.movers.ring.is_on()) transfer->path = Path::shared_memory;
  Transfer handle = endpoint_.hand_out(*transfer);
  const bool waits = endpoint_.has_waiting();
  if (!waits && post_send(*transfer)) [[likely]] {
    if (transfer->parts == 0) endpoint_.go_on(*transfer);  // a message by the ring is gone at once
  } else {
    // If the message could not be posted, the endpoint has failed, and the message with it.
    if (endpoint_.phase == EndpointPhase::ready) {
      if (!waits && !credits_.may_send()) endpoint_.counts->credit_waits.add(1);
      transfer->move_by(endpoint_.movers.send);
      enqueue(endpoint_, *transfer);
    }
  }
  return handle;
}

MessageHeader Messages::header_of(TransferState& transfer) noexcept {
  MessageHeader header;
  header.tag = transfer.tagged ? transfer.tag : 0;
  header.length = transfer.bytes;
  header.path = transfer.own_side();
  if (transfer.protocol == Protocol::rendezvous_read ||
      transfer.protocol == Protocol::rendezvous_write) {
    rendezvous_.announce(transfer, header);
  } else {
    header.kind = transfer.tagged ? MessageHeader::Kind::tagged : MessageHeader::Kind::plain;
    if (transfer.operation.inlined) header.flags = MessageHeader::kInlined;
  }
  return header;
}

bool Messages::post_send(TransferState& transfer) noexcept {
  const bool carries =
      transfer.protocol == Protocol::eager || transfer.protocol == Protocol::inlined;
  if (!outbox_.may_send(carries ? transfer.bytes : 0) || !credits_.may_send()) return false;
  if (transfer.answered && !rendezvous_.may_ask()) {
    endpoint_.look_soon();  // a receive for the answer may be free by then
    return false;
  }
  MessageHeader header = header_of(transfer);
  if (transfer.answered) header.id = transfer.id = rendezvous_.ask(transfer);
  const int result =
      outbox_.post(header, header.carries() ? &transfer.operation : nullptr, &transfer);
  if (result == 0) [[likely]] {
    credits_.spend();
    return true;
  }
  if (transfer.answered) rendezvous_.end_asking(transfer, transfer.id);
  if (!transfer.waiting) endpoint_.ending.mark_failed(transfer);
  endpoint_.fail_post(result, &transfer);
  return false;
}

int Messages::ask(TransferState& transfer, MessageHeader& header, std::uint64_t place) noexcept {
  static_assert(wire::kPlaceBytes <= Outbox::kBesideHeader, "it is copied behind the header");
  std::array<std::byte, wire::kPlaceBytes> bytes;
  wire::encode_place(place, bytes.data());
  Operation payload;
  payload.local = reinterpret_cast<std::uint64_t>(bytes.data());
  payload.length = bytes.size();
  header.id = rendezvous_.ask(transfer);
  const int result = outbox_.post(header, &payload, &transfer);
  if (result == 0) [[likely]] {
    credits_.spend();
  } else {
    rendezvous_.end_asking(transfer, header.id);
  }
  return result;
}

bool Messages::has_credit() noexcept {
  return credits_.may_send() && endpoint_.movers.ring.is_empty();
}

bool Messages::tell_by_ring(std::uint32_t immediate, std::uint64_t bytes) noexcept {
  if (!credits_.may_send() || !endpoint_.movers.ring.has_room(0)) return false;
  static_cast<void>(endpoint_.movers.ring.send({.kind = transport::RingFrameKind::immediate,
                                                .value = immediate,
                                                .written = static_cast<std::uint32_t>(bytes)}));
  credits_.spend();
  return true;
}

void Messages::on_moved(TransferState& transfer, MessageHeader::Outcome outcome) noexcept {
  if (transfer.as<Message>() != nullptr) {
    inbox_.on_carried(transfer, outcome);
  } else if (transfer.protocol == Protocol::rendezvous_read && transfer.peer_id != 0) {
    // Only the receive of a large message knows the peer's id and reads.
    rendezvous_.end_reading(transfer, outcome);
  }
}

}  // namespace hbmwire::detail
