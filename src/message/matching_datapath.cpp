// SPDX-License-Identifier: MIT
#include <cstring>

#include "endpoint/transfer_state.hpp"
#include "message/matching.hpp"
#include "message/message_buffers.hpp"

namespace hbmwire::detail {

using wire::MessageHeader;

namespace {

[[gnu::always_inline]] inline bool match(const TransferState& receive,
                                         const MessageHeader& header) noexcept {
  return ((receive.tag ^ header.tag) & receive.mask) == 0;
}

}  // namespace

TransferState* Matching::take_receive(const MessageHeader& header) noexcept {
  Chain<TransferState>& receives = header.tagged_kind() ? tagged_receives_ : plain_receives_;
  return receives.take([&](const TransferState& receive) { return match(receive, header); });
}

const UnexpectedMessage& Matching::keep(const MessageHeader& header, MessageBuffer& buffer,
                                        bool may_stay) noexcept {
  UnexpectedMessage& record = new_record(header);
  if (header.carries() && header.length != 0) {
    record.bytes = buffer.bytes + wire::kMessageHeaderBytes;
    record.buffer = &buffer;
    const std::uint32_t units = may_stay ? 0 : UnexpectedPool::units_for(header.length);
    std::byte* const at = may_stay ? nullptr : pool_.take(units);
    if (at != nullptr) {
      std::memcpy(at, record.bytes, header.length);
      record.bytes = at;
      record.buffer = nullptr;
      record.units = units;
    }
  }
  (header.tagged_kind() ? tagged_messages_ : plain_messages_).append(record);
  return record;
}

UnexpectedMessage* Matching::take_message(const TransferState& receive) noexcept {
  Chain<UnexpectedMessage>& messages = receive.tagged ? tagged_messages_ : plain_messages_;
  return messages.take(
      [&](const UnexpectedMessage& message) { return match(receive, message.header); });
}

UnexpectedMessage& Matching::hold(const MessageHeader& header, MessageBuffer& buffer) noexcept {
  UnexpectedMessage& record = new_record(header);
  record.bytes = buffer.bytes + wire::kMessageHeaderBytes;
  record.buffer = &buffer;
  return record;
}

UnexpectedMessage& Matching::new_record(const MessageHeader& header) noexcept {
  UnexpectedMessage& record = *free_record_;
  free_record_ = record.next;
  record.header = header;
  record.bytes = nullptr;
  record.buffer = nullptr;
  record.units = 0;
  return record;
}

MessageBuffer* Matching::release(UnexpectedMessage& message) noexcept {
  if (message.units != 0) pool_.give_back(message.bytes, message.units);
  message.next = free_record_;
  free_record_ = &message;
  return message.buffer;
}

void Matching::add_receive(TransferState& receive) noexcept {
  (receive.tagged ? tagged_receives_ : plain_receives_).append(receive);
}

bool Matching::cancel(const TransferState& receive) noexcept {
  const auto same = [&](const TransferState& other) { return &other == &receive; };
  return (receive.tagged ? tagged_receives_ : plain_receives_).take(same) != nullptr ||
         immediate_receives_.take(same) != nullptr;
}

TransferState* Matching::take_any_receive() noexcept {
  for (Chain<TransferState>* const receives :
       {&plain_receives_, &tagged_receives_, &immediate_receives_}) {
    if (!receives->empty()) return &receives->take_first();
  }
  return nullptr;
}

TransferState* Matching::take_immediate_receive() noexcept {
  return immediate_receives_.empty() ? nullptr : &immediate_receives_.take_first();
}

std::optional<Immediate> Matching::take_immediate() noexcept {
  if (immediates_.empty()) return std::nullopt;
  const Immediate immediate = immediates_.front();
  immediates_.pop();
  return immediate;
}

}  // namespace hbmwire::detail
