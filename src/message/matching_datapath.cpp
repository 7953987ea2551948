// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "endpoint/transfer_state.hpp"
#include "message/matching.hpp"
#include "message/receive_pool.hpp"

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

UnexpectedMessage* Matching::keep(const MessageHeader& header, ReceiveBuffer& buffer,
                                  bool may_stay) noexcept {
  UnexpectedMessage* const record = store(header, buffer, may_stay);
  if (record != nullptr) [[likely]]
    (header.tagged_kind() ? tagged_messages_ : plain_messages_).append(*record);
  return record;
}

UnexpectedMessage* Matching::store(const MessageHeader& header, ReceiveBuffer& buffer,
                                   bool may_stay) noexcept {
  const std::uint64_t length = header.carries() ? header.length : 0;
  UnexpectedMessage* record = nullptr;
  if (buffer.passes || (length != 0 && !may_stay)) {
    // The record of a message without bytes needs a unit, too.
    const std::uint32_t units = std::max(UnexpectedUnits::units_for(length), 1U);
    if (units <= units_left_) record = pool_->take(units);
    const bool is_beyond = record == nullptr && buffer.passes;
    if (is_beyond) [[unlikely]]
      record = pool_->take_beyond(units);
    if (is_beyond && record == nullptr) [[unlikely]]
      return nullptr;
    if (record != nullptr) {
      units_left_ -= units;
      record->is_beyond = is_beyond;
      record->header = header;
      record->by_ring = buffer.passes;
      if (length != 0) std::memcpy(record->bytes, buffer.bytes + wire::kMessageHeaderBytes, length);
    }
  }
  return record == nullptr ? &hold(header, buffer) : record;
}

UnexpectedMessage* Matching::take_message(const TransferState& receive) noexcept {
  Chain<UnexpectedMessage>& messages = receive.tagged ? tagged_messages_ : plain_messages_;
  return messages.take(
      [&](const UnexpectedMessage& message) { return match(receive, message.header); });
}

UnexpectedMessage* Matching::take_any_message() noexcept {
  for (Chain<UnexpectedMessage>* const messages : {&plain_messages_, &tagged_messages_}) {
    if (!messages->empty()) return &messages->take_first();
  }
  return nullptr;
}

UnexpectedMessage& Matching::hold(const MessageHeader& header, ReceiveBuffer& buffer) noexcept {
  UnexpectedMessage& record = buffer.record;
  record.header = header;
  record.bytes = buffer.bytes + wire::kMessageHeaderBytes;
  record.mover_key = buffer.mover_key;
  record.units = 0;
  record.by_ring = false;
  record.buffer = &buffer;
  return record;
}

ReceiveBuffer* Matching::release(UnexpectedMessage& message) noexcept {
  if (message.buffer != nullptr) return message.buffer;
  units_left_ += message.units;
  pool_->give_back(message);
  return nullptr;
}

void Matching::add_receive(TransferState& receive) noexcept {
  (receive.tagged ? tagged_receives_ : plain_receives_).append(receive);
}

bool Matching::cancel(const TransferState& receive) noexcept {
  const auto same = [&](const TransferState& waiting) { return &waiting == &receive; };
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
