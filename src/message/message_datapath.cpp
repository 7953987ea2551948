// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <cstring>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

using wire::MessageHeader;

}  // namespace

void EndpointState::on_message(MessageBuffer& buffer,
                               const transport::Completion& completion) noexcept {
  --receives_posted;
  if (phase != EndpointPhase::ready) return;
  if (!completion.good()) [[unlikely]] {
    if (completion.status == transport::CompletionStatus::length)
      return refuse_message("the peer's message is too long");
    fail(transport::completion_error(completion, peer), nullptr);
    return;
  }
  if (completion.by == transport::Completion::By::write) {
    repost(buffer);
    on_immediate(completion.immediate, completion.bytes);
  } else {
    const auto header = wire::decode_header({buffer.bytes, completion.bytes});
    if (!header || completion.by != transport::Completion::By::message) [[unlikely]] {
      refuse_message("the peer's message is malformed");
      return;
    }
    if (!mail.credits.add(header->credits)) [[unlikely]] {
      refuse_message("the peer gave more credits than it has places for");
      return;
    }
    on_arrived(*header, buffer);
  }
  if (phase == EndpointPhase::ready && (!pending.empty() || mail.pressing)) post_waiting();
}

void EndpointState::on_arrived(const MessageHeader& header, MessageBuffer& buffer) noexcept {
  switch (header.kind) {
    case MessageHeader::Kind::plain:
    case MessageHeader::Kind::tagged:
    case MessageHeader::Kind::plain_large:
    case MessageHeader::Kind::tagged_large: {
      if (!mail.credits.take()) [[unlikely]]
        return refuse_message("the peer sent more messages than it may");
      TransferState* const transfer = mail.matching.take_receive(header);
      if (transfer == nullptr) return keep(header, buffer);
      return deliver(*transfer, header, &buffer, nullptr);
    }
    case MessageHeader::Kind::credit:
      break;
    case MessageHeader::Kind::clear:
      on_clear(header);
      break;
    case MessageHeader::Kind::finished:
      on_finished(header);
      break;
    case MessageHeader::Kind::written:
      on_written(header);
      break;
    case MessageHeader::Kind::put:
    case MessageHeader::Kind::get:
      if (!mail.credits.take()) [[unlikely]]
        return refuse_message("the peer asked for more than it may");
      server.on_request(header, wire::decode_place(buffer.bytes));
      break;
  }
  repost(buffer);
}

void EndpointState::refuse_message(const char* why) noexcept {
  fail(make_error(Errc::protocol, Stage::complete, why, peer, Hint::other_version), nullptr);
}

void EndpointState::on_immediate(std::uint32_t value, std::uint32_t bytes) noexcept {
  if (!mail.credits.take()) [[unlikely]]
    return refuse_message("the peer sent more immediates than it may");
  if (TransferState* const transfer = mail.matching.take_immediate_receive(); transfer != nullptr) {
    take_immediate(*transfer, {value, bytes});
  } else {
    mail.matching.keep_immediate({value, bytes});
  }
}

void EndpointState::take_immediate(TransferState& transfer, const Immediate& immediate) noexcept {
  transfer.receives = false;
  transfer.value = immediate.value;
  transfer.bytes = immediate.bytes;
  owe();
  if (transfer.then == TransferState::Then::over) {
    worker->succeed(transfer);
  } else {
    worker_nic.mover->start(transfer, 0);
  }
}

void EndpointState::repost(MessageBuffer& buffer) noexcept {
  if (phase != EndpointPhase::ready) return;
  mail.read[mail.read_count++] = &buffer;
  if (mail.read_count == Mailbox::kMostRead) repost_all();
}

void EndpointState::repost_all() noexcept {
  std::array<transport::Receive, Mailbox::kMostRead> receives;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const MessageBuffer& buffer = *mail.read[i];
    receives[i] = {transport::to_id(&buffer, transport::Tag::message),
                   {.address = reinterpret_cast<std::uint64_t>(buffer.bytes),
                    .length = message_bytes,
                    .key = buffer.local_key}};
  }
  mail.read_count = 0;
  std::size_t posted = 0;
  const int result = data->post_receives(receives, posted);
  // Those before one that is refused are posted, and come back.
  receives_posted += static_cast<std::uint32_t>(posted);
  if (result == 0) [[likely]]
    return;
  fail(system_error(Stage::post, "ibv_post_recv", result, nic->info.name), nullptr);
}

void EndpointState::owe() noexcept {
  mail.credits.free_place();
  if (mail.credits.are_due()) mail.pressing = true;
}

void EndpointState::keep(const MessageHeader& header, MessageBuffer& buffer) noexcept {
  const UnexpectedMessage& kept =
      mail.matching.keep(header, buffer, mail.waiting < mail.most_waiting);
  if (kept.buffer != nullptr) {
    ++mail.waiting;
    return;
  }
  // A large one keeps its credit until it is over, as does one of nothing: records are bounded.
  repost(buffer);
  // As does one whose sender waits for word, until it has that: answers are bounded so.
  if (kept.units != 0 && header.id == 0) owe();
}

void EndpointState::release(UnexpectedMessage& record) noexcept {
  MessageBuffer* const buffer = mail.matching.release(record);
  if (buffer == nullptr) return;
  --mail.waiting;
  repost(*buffer);
}

}  // namespace hbmwire::detail
