// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "endpoint/endpoint_state.hpp"
#include "message/rendezvous.hpp"

namespace hbmwire::detail {

using wire::MessageHeader;
using Outcome = MessageHeader::Outcome;

void Rendezvous::announce(TransferState& transfer, MessageHeader& header) const noexcept {
  header.kind =
      transfer.tagged ? MessageHeader::Kind::tagged_large : MessageHeader::Kind::plain_large;
  const RegionState& region = *transfer.region;
  const Registration* const ours = region.with(*endpoint_.nic);
  const bool is_open = has(region.access, Access::remote_read);
  if (is_open) header.shared_key = shared_key_of(region);
  const bool by_nic = ours != nullptr && is_open;
  if (by_nic || header.shared_key != 0) header.address = transfer.operation.local;
  if (by_nic) {
    header.flags = MessageHeader::kReadable;
    header.remote_key = ours->mr.get()->rkey;
  } else if (header.shared_key == 0) {
    transfer.protocol = Protocol::rendezvous_write;
  }
}

/// The number by which the peer's process can read the region itself; 0: it cannot.
std::uint16_t Rendezvous::shared_key_of(const RegionState& region) const noexcept {
  const MemoryDomain& memory = region.allocation.domain();
  const bool reaches = endpoint_.movers.ring.is_on() && memory.device().type == MemoryType::host &&
                       (memory.is_shareable() || endpoint_.movers.ring.peer_reaches_private());
  return reaches ? static_cast<std::uint16_t>(region.share.number_of(region)) : std::uint16_t{0};
}

std::uint32_t Rendezvous::ask(TransferState& transfer) noexcept {
  ++transfer.parts;
  // An answer beyond the sure ones takes a receive; may_ask() has checked that there is one.
  if (open_++ >= sure_) static_cast<void>(receives_.take());
  return asked_.open(transfer);
}

void Rendezvous::end_asking(TransferState& transfer, std::uint32_t id) noexcept {
  asked_.close(id);
  end_answer();
  --transfer.parts;
}

void Rendezvous::pull(TransferState& transfer, const MessageHeader& header) noexcept {
  const bool to_host = transfer.region->allocation.domain().device().type == MemoryType::host;
  if (header.shared_key != 0 && to_host && endpoint_.movers.ring.is_on() &&
      endpoint_.movers.shared.pull(transfer, header.shared_key, header.address)) {
    transfer.protocol = Protocol::rendezvous_read;
    return outbox_.go_urgently_by_mover(transfer);
  }
  if (!header.readable()) return ask_to_write(transfer, header);
  transfer.protocol = Protocol::rendezvous_read;
  transport::Operation& operation = transfer.operation;
  operation.opcode = transport::Opcode::read;
  operation.remote = header.address;
  operation.remote_key = header.remote_key;
  transfer.then = endpoint_.is_device(transfer) ? Then::flush : Then::answer;
  outbox_.go_urgently(transfer);
}

void Rendezvous::ask_to_write(TransferState& transfer, const MessageHeader& header) noexcept {
  transfer.protocol = Protocol::rendezvous_write;
  transfer.id = written_.open(transfer);
  const auto key = key_for_writing(transfer);
  if (!key) [[unlikely]] {
    written_.close(transfer.id);
    end_reading(transfer, Outcome::refused);
    return endpoint_.worker->fail(transfer, key.error(), /*settled=*/true);
  }
  transfer.then = endpoint_.is_device(transfer) ? Then::flush : Then::over;
  ++transfer.parts;  // until the peer has written
  MessageHeader clear;
  clear.kind = MessageHeader::Kind::clear;
  clear.id = header.id;
  clear.tag = transfer.id;
  clear.length = transfer.bytes;
  clear.address = transfer.operation.local;
  clear.remote_key = *key;
  clear.path = transfer.own_side();
  outbox_.answer(clear);
}

void Rendezvous::on_written(const MessageHeader& header) noexcept {
  TransferState* const transfer = written_.find(header.id);
  if (transfer == nullptr || header.length != transfer->bytes) [[unlikely]]
    return endpoint_.break_protocol("the peer wrote bytes that no receive asked for");
  written_.close(transfer->id);
  keys_[Slots::place_of(transfer->id)].reset();
  outbox_.free_place();
  if (--transfer->parts == 0) endpoint_.go_on(*transfer);
}

void Rendezvous::end_reading(const TransferState& transfer, Outcome outcome) noexcept {
  if (endpoint_.phase == EndpointPhase::ready) outbox_.answer_finished(transfer, outcome);
  outbox_.free_place();
}

void Rendezvous::on_clear(const MessageHeader& header) noexcept {
  TransferState* const transfer = asked_.find(header.id);
  // A receiver on this node may ask the sender to write, even if it could have read the bytes.
  const bool may_be_asked =
      transfer != nullptr &&
      (transfer->protocol == Protocol::rendezvous_write ||
       (transfer->protocol == Protocol::rendezvous_read && endpoint_.movers.ring.is_on()));
  const bool asked = may_be_asked && header.length == transfer->bytes;
  // The tag must hold the id that the receiver gave it, of 32 bits.
  if (!asked || header.tag == 0 || header.tag > ~std::uint32_t{0}) [[unlikely]]
    return endpoint_.break_protocol("the peer asked for a message that was not announced to it");
  end_asking(*transfer, header.id);
  transfer->learn_remote(header.path);
  transfer->peer_id = static_cast<std::uint32_t>(header.tag);
  transfer->protocol = Protocol::rendezvous_write;
  transport::Operation& operation = transfer->operation;
  operation.opcode = transport::Opcode::write;
  operation.fenced = false;  // the fence was on the header
  operation.remote = header.address;
  operation.remote_key = header.remote_key;
  operation.in_window = true;  // the key is for this message only
  outbox_.go_urgently(*transfer);
}

void Rendezvous::on_finished(const MessageHeader& header) noexcept {
  TransferState* const transfer = asked_.find(header.id);
  if (transfer != nullptr && transfer->protocol == Protocol::proxied) [[unlikely]]
    return endpoint_.movers.proxied.on_finished(*transfer, header);
  const bool taken = header.outcome == Outcome::taken;
  // A receiver that must ask for the bytes cannot have taken them before.
  const bool impossible =
      transfer == nullptr || (taken && (header.length != transfer->bytes ||
                                        transfer->protocol == Protocol::rendezvous_write));
  if (impossible) [[unlikely]]
    return endpoint_.break_protocol("the peer answered a question that was not asked");
  end_asking(*transfer, header.id);
  transfer->learn_remote(header.path);
  if (header.shared_key != 0) transfer->path = Path::shared_memory;
  if (!taken) note_refusal(*transfer, header.outcome);
  // The message itself may not be acknowledged yet.
  if (transfer->parts == 0) endpoint_.go_on(*transfer);
}

TransferState* Rendezvous::unanswered(Time at, std::chrono::nanoseconds patience) noexcept {
  TransferState* const asked = asked_watch_.look(asked_, at, patience);
  TransferState* const written = written_watch_.look(written_, at, patience);
  return written != nullptr ? written : asked;
}

}  // namespace hbmwire::detail
