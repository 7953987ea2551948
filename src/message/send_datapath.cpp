// SPDX-License-Identifier: MIT
#include <bit>
#include <cstring>
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

using transport::Operation;
using wire::MessageHeader;

bool is_rendezvous(const TransferState& transfer) noexcept {
  return transfer.protocol == Protocol::rendezvous_read ||
         transfer.protocol == Protocol::rendezvous_write;
}

Path path_of(const RegionState* region) noexcept {
  return region == nullptr ? Path::host : region->path;
}

}  // namespace

Result<Transfer> EndpointState::send(const Slice& from, bool tagged, std::uint64_t tag,
                                     const SendOptions& send_options) {
  if (phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(not_ready());
  Operation operation;
  HBMWIRE_TRY(set_local(operation, from));
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  operation.fenced = std::exchange(fence_next, false);
  const RegionState* const region = operation.length == 0 ? nullptr : &from.region->state();
  const bool host = path_of(region) == Path::host;
  const bool at_once = operation.length == 0 || (host && operation.length <= options.eager_bytes);
  operation.inlined =
      at_once && may_be_copied() && operation.length + wire::kMessageHeaderBytes <= inline_bytes;
  transfer->protocol = operation.inlined ? Protocol::inlined
                       : at_once         ? Protocol::eager
                                         : Protocol::rendezvous_read;
  transfer->tagged = tagged;
  transfer->tag = tag;
  transfer->region = region;
  set_route(*transfer, region, nullptr);
  transfer->answered = !at_once || send_options.level != CompletionLevel::sent;
  transfer->operation = operation;
  transfer->endpoint = this;
  transfer->bytes = operation.length;
  transfer->parts = 0;
  transfer->status = TransferState::Status::active;
  Transfer handle = hand_out(*transfer);
  if (!pending.empty() || mail.pressing || !post_send(*transfer)) [[unlikely]] {
    // What could not be posted has failed with the endpoint.
    if (phase == EndpointPhase::ready) {
      transfer->move_by(send_mover);
      pending.append(*transfer);
      post_waiting();
    }
  }
  return handle;
}

Transfer EndpointState::hand_out(TransferState& transfer) noexcept {
  transfer.held = true;
  if (worker->orphaned) [[unlikely]]
    ++worker->held;
  return Transfer(&transfer);
}

MessageHeader EndpointState::header_of(TransferState& transfer) noexcept {
  MessageHeader header;
  header.tag = transfer.tagged ? transfer.tag : 0;
  header.length = transfer.bytes;
  header.path = own_side(transfer);
  if (is_rendezvous(transfer)) {
    header.kind =
        transfer.tagged ? MessageHeader::Kind::tagged_large : MessageHeader::Kind::plain_large;
    const RegionState& region = *transfer.region;
    const Registration* const ours = region.with(*nic);
    if (ours != nullptr && has(region.access, Access::remote_read)) {
      header.flags = MessageHeader::kReadable;
      header.address = transfer.operation.local;
      header.remote_key = ours->mr.get()->rkey;
    } else {
      transfer.protocol = Protocol::rendezvous_write;
    }
  } else {
    header.kind = transfer.tagged ? MessageHeader::Kind::tagged : MessageHeader::Kind::plain;
    if (transfer.operation.inlined) header.flags = MessageHeader::kInlined;
  }
  return header;
}

bool EndpointState::post_send(TransferState& transfer) noexcept {
  if (room() < 2 || !mail.credits.may_send()) return false;
  if (transfer.answered && mail.sent.full()) return false;
  MessageHeader header = header_of(transfer);
  if (transfer.answered) {
    transfer.id = mail.sent.open(transfer);
    header.id = transfer.id;
    ++transfer.parts;  // until the peer says how it ended
  }
  const int result =
      post_message(header, header.carries() ? &transfer.operation : nullptr, &transfer);
  if (result == 0) [[likely]] {
    mail.credits.spend();
    return true;
  }
  if (transfer.answered) {
    mail.sent.close(transfer.id);
    --transfer.parts;
  }
  if (!transfer.waiting) ending.mark_failed(transfer);
  fail_post(result, &transfer);
  return false;
}

int EndpointState::post_message(MessageHeader header, const Operation* payload,
                                TransferState* transfer) noexcept {
  const std::uint32_t place = head & ring_mask;
  header.credits = mail.credits.to_tell();
  // Where the request can't hold the header it must stay until the request is over.
  std::byte* const bytes = mail.headers + place * Mailbox::kHeaderPlace;
  encode(header, bytes);
  transport::Message message;
  message.header = {.address = reinterpret_cast<std::uint64_t>(bytes),
                    .length = wire::kMessageHeaderBytes,
                    .key = mail.headers_key};
  const std::uint64_t length = payload == nullptr ? 0 : payload->length;
  message.fenced = transfer != nullptr && transfer->operation.fenced;
  const bool is_read_later = length != 0 && (mail.guarded || !may_be_copied()) && header.carries();
  if (length > Mailbox::kBesideHeader || is_read_later) {
    message.payload = {.address = payload->local,
                       .length = static_cast<std::uint32_t>(length),
                       .key = payload->local_key};
  } else if (length != 0) {
    // One element is less work for a NIC than two.
    std::memcpy(bytes + wire::kMessageHeaderBytes, std::bit_cast<const void*>(payload->local),
                length);
    message.header.length += static_cast<std::uint32_t>(length);
  }
  message.inlined = !is_read_later && wire::kMessageHeaderBytes + length <= inline_bytes;
  Posted& posted = next_place(transfer, 1);
  const std::uint64_t id = transport::to_id(&posted, transport::Tag::posted);
  if (const int result = transport::post(*data, message, id); result != 0) [[unlikely]]
    return result;
  mail.credits.told(header.credits);
  count_in(1, transfer);
  return 0;
}

void EndpointState::answer(const MessageHeader& header) noexcept {
  mail.answers.push(header);
  mail.pressing = true;
}

void EndpointState::go_urgently(TransferState& transfer) noexcept {
  if (is_staged(transfer)) {
    transfer.move_by(*worker_nic.staged, Staged{});
  } else {
    transfer.move_by(piece_mover, Pieces{});
  }
  ++transfer.parts;  // until all of it is posted
  mail.urgent.append(transfer);
  mail.pressing = true;
}

void EndpointState::post_pressing() noexcept {
  if (!post_urgent()) return;
  if (server.is_busy()) [[unlikely]] {
    server.advance();
    if (phase != EndpointPhase::ready) return;
  }
  int result = 0;
  while (result == 0 && !mail.answers.empty() && room() >= 2) {
    result = post_message(mail.answers.front(), nullptr, nullptr);
    if (result == 0) mail.answers.pop();
  }
  if (result == 0 && mail.credits.are_due() && room() >= 2)
    result = post_message(MessageHeader{}, nullptr, nullptr);
  if (result != 0) {
    fail_post(result, nullptr);
    return;
  }
  mail.pressing =
      !mail.answers.empty() || !mail.urgent.empty() || mail.credits.are_due() || server.is_busy();
}

/// False when that ended the endpoint.
bool EndpointState::post_urgent() noexcept {
  while (!mail.urgent.empty() && room() >= 2) {
    TransferState& transfer = *mail.urgent.first;
    if (!transfer.mover->advance(transfer) || phase != EndpointPhase::ready)
      return phase == EndpointPhase::ready;
    mail.urgent.take_first();
    --transfer.parts;  // at least one piece is under way, or it is over
    const bool writes = transfer.operation.opcode == transport::Opcode::write;
    MessageHeader header;
    header.kind = MessageHeader::Kind::written;
    header.id = transfer.peer_id;
    header.length = transfer.bytes;
    header.path = own_side(transfer);
    if (!transfer.mover->finish(transfer)) continue;
    // Behind the bytes on the same queue pair, so it arrives behind them.
    if (writes) mail.answers.push(header);
  }
  return true;
}

}  // namespace hbmwire::detail
