// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using wire::MessageHeader;
using Outcome = MessageHeader::Outcome;
using Then = TransferState::Then;

MessageHeader EndpointState::finished(const TransferState& transfer, Outcome outcome) noexcept {
  MessageHeader header;
  header.kind = MessageHeader::Kind::finished;
  header.id = transfer.peer_id;
  header.outcome = outcome;
  header.length = outcome == Outcome::taken ? transfer.bytes : 0;
  header.path = own_side(transfer);
  return header;
}

void EndpointState::pull(TransferState& transfer, const MessageHeader& header) noexcept {
  if (!header.readable()) return ask_to_write(transfer, header);
  transfer.protocol = Protocol::rendezvous_read;
  transport::Operation& operation = transfer.operation;
  operation.opcode = transport::Opcode::read;
  operation.remote = header.address;
  operation.remote_key = header.remote_key;
  transfer.then = is_device(transfer) ? Then::flush : Then::answer;
  go_urgently(transfer);
}

void EndpointState::ask_to_write(TransferState& transfer, const MessageHeader& header) noexcept {
  transfer.protocol = Protocol::rendezvous_write;
  transfer.id = mail.clearing.open(transfer);
  const Registration* const ours = transfer.region->with(*nic);
  // Over TCP the receive itself is the key, which TcpLink looks up.
  auto key = link != nullptr ? Result<std::uint32_t>(transfer.id)
             : ours != nullptr && has(transfer.region->access, Access::remote_write)
                 ? Result<std::uint32_t>(ours->mr.get()->rkey)
                 : open_to_peer(transfer);
  if (!key) [[unlikely]] {
    mail.clearing.close(transfer.id);
    owe();
    answer(finished(transfer, Outcome::refused));
    return end_alone(transfer, key.error());
  }
  ++transfer.parts;  // until the peer has written
  MessageHeader clear;
  clear.kind = MessageHeader::Kind::clear;
  clear.id = header.id;
  clear.tag = transfer.id;
  clear.length = transfer.bytes;
  clear.address = transfer.operation.local;
  clear.remote_key = *key;
  clear.path = own_side(transfer);
  answer(clear);
}

void EndpointState::on_written(const MessageHeader& header) noexcept {
  TransferState* const transfer = mail.clearing.find(header.id);
  if (transfer == nullptr || header.length != transfer->bytes) [[unlikely]]
    return refuse_message("the peer wrote what it was not asked for");
  mail.clearing.close(transfer->id);
  mail.keys[Slots::place_of(transfer->id)].reset();
  owe();
  transfer->then = is_device(*transfer) ? Then::flush : Then::over;
  if (--transfer->parts == 0) go_on(*transfer);
}

void EndpointState::on_clear(const MessageHeader& header) noexcept {
  TransferState* const transfer = mail.sent.find(header.id);
  const bool asked = transfer != nullptr && transfer->protocol == Protocol::rendezvous_write &&
                     header.length == transfer->bytes;
  if (!asked || header.tag == 0 || header.tag > ~std::uint32_t{0}) [[unlikely]]
    return refuse_message("the peer asked for what it was not sent");
  mail.sent.close(transfer->id);
  learn_remote(*transfer, header.path);
  transfer->peer_id = static_cast<std::uint32_t>(header.tag);
  transport::Operation& operation = transfer->operation;
  operation.opcode = transport::Opcode::write;
  operation.fenced = false;  // the header was
  operation.remote = header.address;
  operation.remote_key = header.remote_key;
  operation.in_window = true;
  go_urgently(*transfer);
  --transfer->parts;  // the peer has answered
}

void EndpointState::on_finished(const MessageHeader& header) noexcept {
  TransferState* const transfer = mail.sent.find(header.id);
  if (transfer != nullptr && transfer->protocol == Protocol::proxied) [[unlikely]]
    return proxied.on_finished(*transfer, header);
  const bool taken = header.outcome == Outcome::taken;
  // What its receiver has to ask for it can't have taken before.
  const bool impossible =
      transfer == nullptr || (taken && (header.length != transfer->bytes ||
                                        transfer->protocol == Protocol::rendezvous_write));
  if (impossible) [[unlikely]]
    return refuse_message("the peer answered what it was not asked");
  mail.sent.close(transfer->id);
  learn_remote(*transfer, header.path);
  if (!taken) {
    transfer->then = Then::fail;
    worker->errors[worker->index_of(*transfer)] =
        header.outcome == Outcome::too_long
            ? make_error(Errc::invalid_argument, Stage::complete,
                         "the message is longer than its receive", peer, Hint::message_truncated)
            : make_error(Errc::peer_failed, Stage::complete,
                         "the receiver could not open its memory", peer);
  }
  // The message itself may not be acknowledged yet.
  if (--transfer->parts == 0) go_on(*transfer);
}

void EndpointState::go_on(TransferState& transfer) noexcept {
  const bool ends = phase == EndpointPhase::ending || phase == EndpointPhase::failed ||
                    transfer.then == Then::cut;
  if (ends && transfer.then != Then::fail) return ending.mark_failed(transfer);
  switch (transfer.then) {
    case Then::flush:
      if (!flush_next(transfer)) worker_nic.mover->start(transfer, 0);
      return;
    case Then::answer:
      if (phase == EndpointPhase::ready) answer(finished(transfer, Outcome::taken));
      owe();
      break;
    case Then::fail:
      return worker->fail(transfer, Error(worker->error_of(transfer)), true);
    case Then::over:
    case Then::cut:
      break;
  }
  worker->succeed(transfer);
  if (mail.pressing && phase == EndpointPhase::ready) post_waiting();
}

namespace {

/// Who sent what was carried to a device here waits for word of it, however it went.
void answer_moved(EndpointState& endpoint, TransferState& transfer, Outcome outcome) noexcept {
  const bool ready = endpoint.phase == EndpointPhase::ready;
  if (const Message* const message = transfer.as<Message>(); message != nullptr) {
    UnexpectedMessage& record = *message->record;
    const bool owes = record.units == 0 || record.header.id != 0;
    if (record.header.id != 0 && ready) endpoint.answer(endpoint.finished(transfer, outcome));
    endpoint.release(record);
    if (owes) endpoint.owe();
  } else if (transfer.protocol == Protocol::rendezvous_read && transfer.peer_id != 0) {
    if (ready) endpoint.answer(endpoint.finished(transfer, outcome));
    endpoint.owe();
  }
}

}  // namespace

void EndpointState::on_moved(TransferState& transfer) noexcept {
  const bool failed = transfer.then == Then::fail;
  answer_moved(*this, transfer, failed ? Outcome::refused : Outcome::taken);
  if (!failed && phase == EndpointPhase::ready && flush_next(transfer)) return;
  if (!failed && transfer.then != Then::cut) transfer.then = Then::over;
  go_on(transfer);
  ending.settle();
  if (fence_open && !pending.empty()) [[unlikely]]
    post_waiting();
}

}  // namespace hbmwire::detail
