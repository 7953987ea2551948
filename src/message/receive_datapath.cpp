// SPDX-License-Identifier: MIT
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/guarded_copy.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using wire::MessageHeader;
using Outcome = MessageHeader::Outcome;
using Status = TransferState::Status;
using Then = TransferState::Then;

Result<TransferState*> EndpointState::new_receive(const Slice& into) {
  transport::Operation operation;
  HBMWIRE_TRY(set_local(operation, into));
  HBMWIRE_TRY(check_writable(into, peer));
  const RegionState* const region = operation.length == 0 ? nullptr : &into.region->state();
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  transfer->operation = operation;
  transfer->region = region;
  set_route(*transfer, region, nullptr);
  transfer->protocol = Protocol::eager;
  transfer->receives = true;
  transfer->value = 0;
  transfer->endpoint = this;
  transfer->bytes = operation.length;
  transfer->parts = 0;
  transfer->status = Status::active;
  return transfer;
}

Result<Transfer> EndpointState::receive(const Slice& into, bool tagged, const TagMatch& match) {
  const bool open = phase == EndpointPhase::ready;
  // What came before the peer's goodbye can still be had.
  if (!open && (phase != EndpointPhase::closed || !mail.matching.has_message(tagged))) [[unlikely]]
    return tl::make_unexpected(not_ready());
  HBMWIRE_TRY_ASSIGN(TransferState* const transfer, new_receive(into));
  transfer->tagged = tagged;
  transfer->tag = match.tag;
  transfer->mask = tagged ? match.mask : 0;
  UnexpectedMessage* const record = mail.matching.take_message(*transfer);
  if (record == nullptr && !open) [[unlikely]] {
    worker->give_back(*transfer);
    return tl::make_unexpected(not_ready());
  }
  Transfer handle = hand_out(*transfer);
  if (record == nullptr) {
    mail.matching.add_receive(*transfer);
  } else {
    const MessageHeader header = record->header;
    deliver(*transfer, header, nullptr, record);
    if (mail.pressing && phase == EndpointPhase::ready) post_waiting();
  }
  return handle;
}

Result<Transfer> EndpointState::receive_immediate(const Slice& written) {
  const bool came = phase == EndpointPhase::closed && mail.matching.has_immediate();
  if (phase != EndpointPhase::ready && !came) [[unlikely]]
    return tl::make_unexpected(not_ready());
  transport::Operation operation;
  HBMWIRE_TRY(set_local(operation, written));
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  transfer->operation = operation;
  transfer->region = operation.length == 0 ? nullptr : &written.region->state();
  transfer->then = is_device(*transfer) ? Then::flush : Then::over;
  set_route(*transfer, transfer->region, nullptr);
  transfer->protocol = Protocol::direct;
  transfer->receives = true;
  transfer->endpoint = this;
  transfer->parts = 0;
  transfer->bytes = 0;
  transfer->status = Status::active;
  Transfer handle = hand_out(*transfer);
  const std::optional<Immediate> immediate = mail.matching.take_immediate();
  if (!immediate) {
    mail.matching.add_immediate_receive(*transfer);
    return handle;
  }
  take_immediate(*transfer, *immediate);
  if (mail.pressing && phase == EndpointPhase::ready) post_waiting();
  return handle;
}

namespace {

/// Of a message that is not needed any more, wherever it was.
[[gnu::always_inline]] inline void let_go(EndpointState& endpoint, MessageBuffer* buffer,
                                          UnexpectedMessage* record) noexcept {
  if (record != nullptr) endpoint.release(*record);
  if (buffer != nullptr) endpoint.repost(*buffer);
}

[[gnu::cold]] void refuse_too_long(EndpointState& endpoint, TransferState& transfer,
                                   const MessageHeader& header) noexcept {
  if (header.id != 0) endpoint.answer(endpoint.finished(transfer, Outcome::too_long));
  endpoint.end_alone(transfer, make_error(Errc::invalid_argument, Stage::complete,
                                          "the message is longer than its receive", endpoint.peer,
                                          Hint::message_truncated));
}

[[gnu::cold]] void refuse_gone(EndpointState& endpoint, TransferState& transfer,
                               const MessageHeader& header) noexcept {
  if (header.id != 0) endpoint.answer(endpoint.finished(transfer, Outcome::refused));
  endpoint.end_alone(transfer, memory_gone(Stage::complete, endpoint.peer));
}

}  // namespace

void EndpointState::deliver(TransferState& transfer, const MessageHeader& header,
                            MessageBuffer* buffer, UnexpectedMessage* record) noexcept {
  transfer.receives = false;
  transfer.value = header.tag;
  transfer.bytes = header.length;
  transfer.peer_id = header.id;
  learn_remote(transfer, header.path);
  const bool fits = header.length <= transfer.operation.length;
  transfer.operation.length = header.length;
  if (header.large()) {
    if (fits) pull(transfer, header);
    let_go(*this, buffer, record);
    if (fits) return;
    owe();
    return refuse_too_long(*this, transfer, header);
  }
  if ((header.flags & MessageHeader::kInlined) != 0) transfer.protocol = Protocol::inlined;
  bool is_there = true;
  if (fits && header.length != 0) {
    if (is_device(transfer) || is_staged(transfer))
      return carry_to_device(transfer, header, buffer, record);
    const std::byte* const bytes =
        buffer != nullptr ? buffer->bytes + wire::kMessageHeaderBytes : record->bytes;
    auto* const into = std::bit_cast<std::byte*>(transfer.operation.local);
    if (!mail.guarded) [[likely]] {
      std::memcpy(into, bytes, header.length);
    } else {
      is_there = copy_to_application(into, {bytes, header.length});
    }
  }
  // Its credit came back when it was copied into the pool, unless the sender waits for word.
  const bool owes = record == nullptr || record->units == 0 || header.id != 0;
  let_go(*this, buffer, record);
  if (owes) owe();
  if (!fits) return refuse_too_long(*this, transfer, header);
  if (!is_there) [[unlikely]]
    return refuse_gone(*this, transfer, header);
  if (header.id != 0) answer(finished(transfer, Outcome::taken));
  worker->succeed(transfer);
}

void EndpointState::carry_to_device(TransferState& transfer, const MessageHeader& header,
                                    MessageBuffer* buffer, UnexpectedMessage* record) noexcept {
  if (record == nullptr) {
    record = &mail.matching.hold(header, *buffer);
    ++mail.waiting;
  }
  transfer.path = Path::staged;
  transfer.carry(*record);
  if (is_staged(transfer)) return worker_nic.staged->bring(transfer);
  mail.copied_to_device = true;
  worker_nic.mover->start(transfer, mail.for_mover.get()->rkey);
}

void EndpointState::end_alone(TransferState& transfer, const Error& why) noexcept {
  worker->fail(transfer, why, true);
}

}  // namespace hbmwire::detail
