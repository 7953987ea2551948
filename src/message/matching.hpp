// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/chain.hpp"
#include "message/ring.hpp"
#include "message/unexpected_pool.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

struct ReceiveBuffer;
struct TransferState;

/// The value that came with a put, and how many bytes that put wrote.
struct Immediate {
  std::uint32_t value = 0;
  std::uint32_t bytes = 0;
};

/// Receives that wait for a message, and unexpected messages that wait for a receive. The two never
/// wait for the same tag at the same time. A receive takes the first message that matches; a
/// message takes the receive that was posted first.
///
/// Matching knows receives (TransferState: tag and mask), headers and bytes, but no endpoint: the
/// caller gives buffers back, counts credits and ends transfers.
class Matching {
 public:
  /// `most_immediates`: there are never more, since each needs a credit. At most `unexpected_bytes`
  /// of messages wait outside their receives.
  Matching(std::uint32_t most_immediates, std::uint64_t unexpected_bytes)
      : immediates_(most_immediates), units_left_(UnexpectedUnits::units_for(unexpected_bytes)) {}

  /// Sets where bytes wait outside their receives. Call it before the first message.
  void set_pool(UnexpectedPool& pool) noexcept { pool_ = &pool; }

  // --- messages

  /// Takes out the receive for a message with this header; null if there is none.
  TransferState* take_receive(const wire::MessageHeader& header) noexcept;

  /// Stores a message outside the lists, where take_message() does not find it: for a program that
  /// takes it by itself, or for a receive that has taken it. It stays in `buffer` if it carries no
  /// bytes, if it `may_stay`, or if there is no room elsewhere; UnexpectedMessage::buffer tells. A
  /// message in passing memory (ReceiveBuffer::passes) cannot stay: if there is no room, more
  /// memory is taken for it. Null: no memory is left.
  UnexpectedMessage* store(const wire::MessageHeader& header, ReceiveBuffer& buffer,
                           bool may_stay) noexcept;

  /// Stores an unexpected message as store() does, and adds it to the list in which later receives
  /// look for it.
  UnexpectedMessage* keep(const wire::MessageHeader& header, ReceiveBuffer& buffer,
                          bool may_stay) noexcept;

  /// Takes out the message for `receive`; null if there is none. Call release() afterwards.
  UnexpectedMessage* take_message(const TransferState& receive) noexcept;

  /// Takes out any stored message; null if there is none. Call release() afterwards.
  UnexpectedMessage* take_any_message() noexcept;

  /// Makes a record of a message that stays in `buffer`. Call release() afterwards.
  static UnexpectedMessage& hold(const wire::MessageHeader& header, ReceiveBuffer& buffer) noexcept;

  /// The bytes of a message are not needed any more. Returns the buffer that held them, or null.
  ReceiveBuffer* release(UnexpectedMessage& message) noexcept;

  [[nodiscard]] bool has_message(bool tagged) const noexcept {
    return !(tagged ? tagged_messages_ : plain_messages_).empty();
  }

  // --- receives

  /// Adds a receive (TransferState::tagged, tag, mask) for which take_message() has found nothing.
  void add_receive(TransferState& receive) noexcept;

  void add_immediate_receive(TransferState& receive) noexcept {
    immediate_receives_.append(receive);
  }

  /// Takes out a receive that waits. False: it does not wait here.
  bool cancel(const TransferState& receive) noexcept;

  /// Takes out a waiting receive, one with each call; null: none is left.
  TransferState* take_any_receive() noexcept;

  // --- immediates

  /// Takes out the receive for the next immediate; null: none waits.
  TransferState* take_immediate_receive() noexcept;

  void keep_immediate(const Immediate& immediate) noexcept { immediates_.push(immediate); }

  [[nodiscard]] bool has_immediate() const noexcept { return !immediates_.empty(); }

  /// Takes out the immediate that came first, if any waits.
  std::optional<Immediate> take_immediate() noexcept;

 private:
  Chain<TransferState> plain_receives_;
  Chain<TransferState> tagged_receives_;
  Chain<TransferState> immediate_receives_;
  Chain<UnexpectedMessage> plain_messages_;
  Chain<UnexpectedMessage> tagged_messages_;
  Ring<Immediate> immediates_;
  UnexpectedPool* pool_ = nullptr;
  std::int64_t units_left_;  // that messages may still take of the pool; negative if a message that
                             // cannot wait elsewhere took more
};

}  // namespace hbmwire::detail
