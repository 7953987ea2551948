// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/guarded_copy.hpp"
#include "base/probes.hpp"
#include "endpoint/transfer_counts_datapath.hpp"
#include "endpoint/transfer_trace.hpp"
#include "message/inbox.hpp"

namespace hbmwire::detail {

using wire::MessageHeader;
using Outcome = MessageHeader::Outcome;

Result<TransferState*> Inbox::new_receive(const Slice& into, TransferKind kind) {
  const bool is_written = kind == TransferKind::receive;
  transport::Operation operation;
  HBMWIRE_TRY(endpoint_.checks.message(operation, into));
  if (is_written) HBMWIRE_TRY(check_writable(into, endpoint_.peer));
  TransferState* const transfer = endpoint_.worker->transfers.take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(endpoint_.worker->transfers.none_left(endpoint_.peer));
  const RegionState* const region = operation.length == 0 ? nullptr : &state_of(*into.region);
  transfer->operation = operation;
  transfer->region = region;
  endpoint_.set_route(*transfer, region, nullptr);
  if (is_written) endpoint_.checks.note(into);
  transfer->receives = true;
  transfer->value = 0;
  transfer->begin(&endpoint_, kind, operation.length);
  HBMWIRE_PROBE4(ask, transfer, transfer->connection, transfer->kind, transfer->bytes);
  return transfer;
}

Result<Transfer> Inbox::receive(const Slice& into, bool tagged, const TagMatch& match) {
  if (hands_out_) [[unlikely]] {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::post,
                   "the endpoint hands its messages out (EndpointOptions::messages): take them by "
                   "Worker::next_message()",
                   endpoint_.peer));
  }
  const bool open = endpoint_.phase == EndpointPhase::ready;
  // Messages that came before the peer's goodbye can still be received.
  const bool came = endpoint_.phase == EndpointPhase::closed && matching_.has_message(tagged);
  if (!open && !came) [[unlikely]]
    return tl::make_unexpected(endpoint_.not_ready());
  HBMWIRE_TRY_ASSIGN(TransferState* const transfer, new_receive(into, TransferKind::receive));
  transfer->protocol = Protocol::eager;
  transfer->tagged = tagged;
  transfer->tag = match.tag;
  transfer->mask = tagged ? match.mask : 0;  // 0: takes any message
  UnexpectedMessage* const record = matching_.take_message(*transfer);
  // A closed endpoint can no longer get the bytes of a large message.
  if (!open && (record == nullptr || record->header.large())) [[unlikely]] {
    give_back(nullptr, record);
    endpoint_.worker->transfers.give_back(*transfer);
    return tl::make_unexpected(endpoint_.not_ready());
  }
  Transfer handle = endpoint_.hand_out(*transfer);
  if (record == nullptr) {
    matching_.add_receive(*transfer);
    if ((transfer->at_end & AtEnd::kTrace) != 0) [[unlikely]]
      trace_unmatched(*transfer);
  } else {
    const MessageHeader header = record->header;
    deliver(*transfer, header, nullptr, record);
    go_on();
  }
  return handle;
}

void Inbox::go_on() noexcept {
  if (endpoint_.pressing && endpoint_.phase == EndpointPhase::ready) endpoint_.post_waiting();
}

void Inbox::be_given() noexcept {
  given_ = true;
  while (!early_.empty()) endpoint_.worker->ready.add(early_.take_first());
}

void Inbox::hand_out(UnexpectedMessage& message) noexcept {
  const MessageHeader header = message.header;
  // The sender of a large message is answered when its bytes have been read.
  if (!header.carries() || header.id == 0) return;
  // The message has arrived, and its sender waits to be told. That is done here, so whatever
  // becomes of the message later answers nothing.
  message.header.id = 0;
  if (endpoint_.phase != EndpointPhase::ready) return;
  outbox_.answer_taken(header);
  // keep() has kept its credit for this answer.
  if (!message.has_place()) outbox_.free_place();
  go_on();
}

Result<Transfer> Inbox::receive_handed_out(UnexpectedMessage& message, const Slice& into) {
  const MessageHeader header = message.header;
  if (endpoint_.phase != EndpointPhase::ready && header.large()) [[unlikely]]
    return tl::make_unexpected(endpoint_.not_ready());
  HBMWIRE_TRY_ASSIGN(TransferState* const transfer, new_receive(into, TransferKind::receive));
  // An endpoint that has ended carries no more bytes to a device.
  const bool carries = endpoint_.is_device(*transfer) || endpoint_.is_staged(*transfer);
  const bool ended =
      endpoint_.phase != EndpointPhase::ready && endpoint_.phase != EndpointPhase::closed;
  if (carries && ended) [[unlikely]] {
    endpoint_.worker->transfers.give_back(*transfer);
    return tl::make_unexpected(endpoint_.not_ready());
  }
  transfer->protocol = Protocol::eager;
  transfer->tagged = header.tagged_kind();
  message.keeps_worker.reset();
  if (--handed_out_ == 0) endpoint_.look_soon();  // an ended endpoint may have waited for it
  Transfer handle = endpoint_.hand_out(*transfer);
  deliver(*transfer, header, nullptr, &message);
  go_on();
  return handle;
}

void Inbox::let_go(UnexpectedMessage& message) noexcept {
  --handed_out_;
  const MessageHeader header = message.header;
  const bool holds_place = message.has_place() || header.id != 0;
  give_back(nullptr, &message);
  if (endpoint_.phase == EndpointPhase::ready && header.id != 0) outbox_.answer_let_go(header);
  if (holds_place) outbox_.free_place();
  go_on();
  if (handed_out_ == 0) endpoint_.look_soon();  // as in receive_handed_out()
}

void Inbox::drop_queued() noexcept {
  if (handed_out_ == 0) return;
  while (!early_.empty()) let_go(early_.take_first());
  Chain<UnexpectedMessage> dropped = endpoint_.worker->ready.take_messages_of(endpoint_);
  while (!dropped.empty()) let_go(dropped.take_first());
}

Result<Transfer> Inbox::receive_immediate(const Slice& written) {
  const bool came = endpoint_.phase == EndpointPhase::closed && matching_.has_immediate();
  if (endpoint_.phase != EndpointPhase::ready && !came) [[unlikely]]
    return tl::make_unexpected(endpoint_.not_ready());
  HBMWIRE_TRY_ASSIGN(TransferState* const transfer, new_receive(written, TransferKind::immediate));
  transfer->protocol = Protocol::direct;
  transfer->then = endpoint_.is_device(*transfer) ? Then::flush : Then::over;
  transfer->bytes = 0;
  Transfer handle = endpoint_.hand_out(*transfer);
  const std::optional<Immediate> immediate = matching_.take_immediate();
  if (!immediate) {
    matching_.add_immediate_receive(*transfer);
    if ((transfer->at_end & AtEnd::kTrace) != 0) [[unlikely]]
      trace_unmatched(*transfer);
    return handle;
  }
  take_immediate(*transfer, *immediate);
  go_on();
  return handle;
}

void Inbox::on_received(ReceiveBuffer& buffer, const transport::Completion& completion) noexcept {
  if (endpoint_.phase != EndpointPhase::ready) [[unlikely]] {
    post_again(buffer);
    return endpoint_.look_soon();  // the last receive may just have come back
  }
  if (!completion.good()) [[unlikely]] {
    post_again(buffer);
    if (completion.status == transport::CompletionStatus::length)
      return endpoint_.break_protocol("the peer's message is too long");
    endpoint_.fail(transport::completion_error(completion, endpoint_.peer), nullptr);
    return;
  }
  if (completion.by == transport::Completion::By::write) {
    post_again(buffer);
    on_immediate({completion.immediate, completion.bytes});
  } else {
    // This library sends no SEND with an immediate.
    const bool is_message = completion.by == transport::Completion::By::message;
    on_message(is_message ? wire::decode_header({buffer.bytes, completion.bytes}) : std::nullopt,
               completion.bytes, buffer);
  }
  go_on_after_message();
}

void Inbox::on_message(const std::optional<MessageHeader>& header, std::uint64_t bytes,
                       ReceiveBuffer& buffer) noexcept {
  if (!header) [[unlikely]]
    return break_protocol(buffer, "the peer's message is malformed");
  // A shared receive has the length for all endpoints of the worker; this endpoint may allow less.
  if (bytes > longest_) [[unlikely]]
    return break_protocol(buffer, "the peer's message is too long");
  if (!credits_.add(header->credits)) [[unlikely]]
    return break_protocol(buffer, "the peer gave more credits than it has places for");
  on_header(*header, buffer);
}

void Inbox::on_passing(std::span<std::byte> message) noexcept {
  ReceiveBuffer passing;
  passing.bytes = message.data();
  passing.passes = true;
  // A copy of the header, so that the peer cannot change it after it was checked.
  std::array<std::byte, wire::kMessageHeaderBytes> head{};
  std::memcpy(head.data(), message.data(), std::min(head.size(), message.size()));
  const auto header = message.size() < head.size()
                          ? std::nullopt
                          : wire::decode_header(std::span(head), message.size());
  on_message(header, message.size(), passing);
  go_on_after_message();
}

void Inbox::on_passing_immediate(std::uint32_t value, std::uint32_t bytes) noexcept {
  on_immediate({value, bytes});
  go_on_after_message();
}

void Inbox::go_on_after_message() noexcept {
  if (endpoint_.phase != EndpointPhase::ready) return;
  outbox_.tell_if_due();
  // A waiting send may need just the credits that the message brought.
  if (endpoint_.has_waiting()) endpoint_.post_waiting();
}

void Inbox::on_header(const MessageHeader& header, ReceiveBuffer& buffer) noexcept {
  switch (header.kind) {
    case MessageHeader::Kind::plain:
    case MessageHeader::Kind::tagged:
    case MessageHeader::Kind::plain_large:
    case MessageHeader::Kind::tagged_large: {
      if (!credits_.take()) [[unlikely]]
        return break_protocol(buffer, "the peer sent more messages than it may");
      TransferState* const transfer = hands_out_ ? nullptr : matching_.take_receive(header);
      if (transfer == nullptr) return keep(header, buffer);
      return deliver(*transfer, header, &buffer, nullptr);
    }
    case MessageHeader::Kind::credit:
      break;
    case MessageHeader::Kind::clear:
      rendezvous_.on_clear(header);
      break;
    case MessageHeader::Kind::finished:
      rendezvous_.on_finished(header);
      break;
    case MessageHeader::Kind::written:
      rendezvous_.on_written(header);
      break;
    case MessageHeader::Kind::put:
    case MessageHeader::Kind::get:
      if (!credits_.take()) [[unlikely]]
        return break_protocol(buffer, "the peer asked for more than it may");
      endpoint_.movers.server.on_request(header, wire::decode_place(buffer.bytes));
      break;
  }
  post_again(buffer);
}

void Inbox::on_immediate(const Immediate& immediate) noexcept {
  if (!credits_.take()) [[unlikely]]
    return endpoint_.break_protocol("the peer sent more immediates than it may");
  if (TransferState* const transfer = matching_.take_immediate_receive(); transfer != nullptr) {
    take_immediate(*transfer, immediate);
  } else {
    matching_.keep_immediate(immediate);
  }
}

void Inbox::take_immediate(TransferState& transfer, const Immediate& immediate) noexcept {
  if ((transfer.at_end & AtEnd::kTrace) != 0) [[unlikely]]
    trace_posted(transfer);
  transfer.receives = false;
  transfer.value = immediate.value;
  transfer.bytes = immediate.bytes;
  outbox_.free_place();
  if (transfer.then == Then::over) {
    endpoint_.worker->succeed(transfer);
  } else {
    endpoint_.worker_nic.mover->start(transfer, 0);  // only a flush: no bytes, so no key
  }
}

bool Inbox::may_stay() const noexcept { return kept_ < credits_.places() / 2; }

void Inbox::keep(const MessageHeader& header, ReceiveBuffer& buffer) noexcept {
  UnexpectedMessage* const kept = hands_out_ ? matching_.store(header, buffer, may_stay())
                                             : matching_.keep(header, buffer, may_stay());
  if (kept == nullptr) [[unlikely]]
    return fail_for_room();
  if (hands_out_) {
    kept->endpoint = &endpoint_;
    ++handed_out_;
    if (given_) [[likely]] {
      endpoint_.worker->ready.add(*kept);
    } else {
      early_.append(*kept);
    }
  }
  if (kept->buffer != nullptr) {
    ++kept_;
    return;
  }
  post_again(buffer);
  // A message whose sender waits for an answer keeps its credit until then: that bounds the number
  // of answers.
  if (header.id == 0 && !kept->has_place()) outbox_.free_place();
}

void Inbox::deliver(TransferState& transfer, const MessageHeader& header, ReceiveBuffer* buffer,
                    UnexpectedMessage* record) noexcept {
  if ((transfer.at_end & AtEnd::kTrace) != 0) [[unlikely]]
    trace_posted(transfer);
  transfer.receives = false;
  transfer.value = header.tag;
  transfer.bytes = header.length;
  transfer.peer_id = header.id;
  transfer.learn_remote(header.path);
  const bool fits = header.length <= transfer.operation.length;
  transfer.operation.length = header.length;
  if (header.large() && fits) {
    // The place stays taken until the bytes are here (Rendezvous::end_reading(), on_written()).
    rendezvous_.pull(transfer, header);
    return give_back(buffer, record);
  }
  if ((header.flags & MessageHeader::kInlined) != 0) transfer.protocol = Protocol::inlined;
  bool copied = true;
  if (fits && header.length != 0) {
    if (endpoint_.is_device(transfer) || endpoint_.is_staged(transfer))
      return carry_to_device(transfer, header, buffer, record);
    if (buffer != nullptr ? buffer->passes : record->by_ring) transfer.path = Path::shared_memory;
    const std::byte* const bytes =
        buffer != nullptr ? buffer->bytes + wire::kMessageHeaderBytes : record->bytes;
    auto* const into = std::bit_cast<std::byte*>(transfer.operation.local);
    if (!guarded_) [[likely]] {
      std::memcpy(into, bytes, header.length);
    } else {
      copied = copy_to_application(into, {bytes, header.length});
    }
  }
  // The place became free when the message was copied into the pool, unless the sender waits for an
  // answer.
  const bool frees_place = record == nullptr || record->has_place() || header.id != 0;
  give_back(buffer, record);
  if (frees_place) outbox_.free_place();
  if (!fits) [[unlikely]] {
    return refuse(transfer, header, Outcome::too_long,
                  make_error(Errc::invalid_argument, Stage::complete,
                             "the message is longer than its receive", endpoint_.peer,
                             Hint::message_truncated));
  }
  if (!copied) [[unlikely]]
    return refuse(transfer, header, Outcome::refused, memory_gone(Stage::complete, endpoint_.peer));
  if (header.id != 0) outbox_.answer_finished(transfer, Outcome::taken);
  endpoint_.worker->succeed(transfer);
}

void Inbox::refuse(TransferState& transfer, const MessageHeader& header, Outcome outcome,
                   const Error& why) noexcept {
  if (header.id != 0) outbox_.answer_finished(transfer, outcome);
  endpoint_.worker->fail(transfer, why, /*settled=*/true);
}

void Inbox::carry_to_device(TransferState& transfer, const MessageHeader& header,
                            ReceiveBuffer* buffer, UnexpectedMessage* record) noexcept {
  if (record == nullptr && buffer->passes) {
    record = matching_.store(header, *buffer, false);
    if (record == nullptr) [[unlikely]] {
      refuse(transfer, header, Outcome::refused, no_room());
      return outbox_.free_place();
    }
    // The message is copied, so its place is free, as in keep().
    if (header.id == 0 && !record->has_place()) outbox_.free_place();
  } else if (record == nullptr) {
    record = &Matching::hold(header, *buffer);
    ++kept_;
  }
  transfer.path = Path::staged;
  transfer.carry(*record);
  if (endpoint_.is_staged(transfer)) return endpoint_.worker_nic.staged->bring(transfer);
  copied_to_device_ = true;
  endpoint_.worker_nic.mover->start(transfer, record->mover_key);
}

void Inbox::on_carried(TransferState& transfer, Outcome outcome) noexcept {
  UnexpectedMessage& record = *transfer.as<Message>()->record;
  const bool waited_for = record.header.id != 0;
  const bool frees_place = record.has_place() || waited_for;
  if (waited_for && endpoint_.phase == EndpointPhase::ready)
    outbox_.answer_finished(transfer, outcome);
  give_back(nullptr, &record);
  if (frees_place) outbox_.free_place();
}

void Inbox::give_back(ReceiveBuffer* buffer, UnexpectedMessage* record) noexcept {
  if (record != nullptr) {
    buffer = matching_.release(*record);
    if (buffer != nullptr) --kept_;
  }
  if (buffer != nullptr) post_again(*buffer);
}

void Inbox::break_protocol(ReceiveBuffer& buffer, const char* why) noexcept {
  endpoint_.break_protocol(why);
  post_again(buffer);
}

Error Inbox::no_room() const noexcept {
  return make_error(Errc::exhausted, Stage::complete,
                    "there is no memory to set a message aside that came before its receive",
                    endpoint_.peer, Hint::host_memory_exhausted);
}

void Inbox::fail_for_room() noexcept { endpoint_.fail(no_room(), nullptr); }

void Inbox::post_again(ReceiveBuffer& buffer) noexcept {
  if (buffer.passes) return;
  // A lane in ERROR gives its own receives back at once. Shared receives are posted again for the
  // other lanes.
  if (endpoint_.phase != EndpointPhase::ready && !receives_.are_shared()) return;
  if (const int result = receives_.post(buffer); result != 0) [[unlikely]] {
    endpoint_.fail(system_error(Stage::post, "ibv_post_recv", result, endpoint_.nic->info.name),
                   nullptr);
  }
}

}  // namespace hbmwire::detail
