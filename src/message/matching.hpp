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

/// Receives that wait for a message, and messages that wait for a receive: never both for the same
/// tag. A receive takes the message that came first, and a message the receive that was posted
/// first, among those that match.
///
/// It knows receives (TransferState: tag and mask), headers and bytes, and no endpoint: the caller
/// gives buffers back, counts credits and ends transfers.
class Matching {
 public:
  /// There are never more immediates, as each needs a credit. At most `unexpected_bytes` of
  /// messages wait outside their receives.
  Matching(std::uint32_t most_immediates, std::uint64_t unexpected_bytes)
      : immediates_(most_immediates), units_left_(UnexpectedUnits::units_for(unexpected_bytes)) {}

  /// Before the first message: where bytes wait outside their receive.
  void set_pool(UnexpectedPool& pool) noexcept { pool_ = &pool; }

  // --- messages

  /// The receive that takes a message with this header, taken out; null: there is none.
  TransferState* take_receive(const wire::MessageHeader& header) noexcept;

  /// The record of a message that no receive takes. It stays in `buffer` if it carries no bytes, if
  /// it `may_stay`, or if there is no room elsewhere; the result tells (UnexpectedMessage::buffer).
  /// A message in passing memory stays in no buffer: more memory is taken for it where there is no
  /// room; null: there is none.
  UnexpectedMessage* store(const wire::MessageHeader& header, ReceiveBuffer& buffer,
                           bool may_stay) noexcept;

  /// The same, for the receive that will take it.
  UnexpectedMessage* keep(const wire::MessageHeader& header, ReceiveBuffer& buffer,
                          bool may_stay) noexcept;

  /// The message that `receive` takes, taken out; null: there is none. release() follows.
  UnexpectedMessage* take_message(const TransferState& receive) noexcept;

  /// Any one of those that are kept, taken out; null: there is none. release() follows.
  UnexpectedMessage* take_any_message() noexcept;

  /// The record of a message that stays in `buffer`, though a receive has taken it. release()
  /// follows.
  static UnexpectedMessage& hold(const wire::MessageHeader& header, ReceiveBuffer& buffer) noexcept;

  /// The bytes of a message are not needed any more. The buffer that held them, or null.
  ReceiveBuffer* release(UnexpectedMessage& message) noexcept;

  [[nodiscard]] bool has_message(bool tagged) const noexcept {
    return !(tagged ? tagged_messages_ : plain_messages_).empty();
  }

  // --- receives

  /// `receive` (TransferState::tagged, tag, mask) waits. take_message() has found nothing for it.
  void add_receive(TransferState& receive) noexcept;

  void add_immediate_receive(TransferState& receive) noexcept {
    immediate_receives_.append(receive);
  }

  /// False: nothing waits of it.
  bool cancel(const TransferState& receive) noexcept;

  /// One after the other of all that wait; null: none does any more.
  TransferState* take_any_receive() noexcept;

  // --- immediates

  /// The receive that takes the next immediate; null: none waits.
  TransferState* take_immediate_receive() noexcept;

  void keep_immediate(const Immediate& immediate) noexcept { immediates_.push(immediate); }

  [[nodiscard]] bool has_immediate() const noexcept { return !immediates_.empty(); }

  /// The first one that waits, if any.
  std::optional<Immediate> take_immediate() noexcept;

 private:
  Chain<TransferState> plain_receives_;
  Chain<TransferState> tagged_receives_;
  Chain<TransferState> immediate_receives_;
  Chain<UnexpectedMessage> plain_messages_;
  Chain<UnexpectedMessage> tagged_messages_;
  Ring<Immediate> immediates_;
  UnexpectedPool* pool_ = nullptr;
  std::int64_t units_left_;  // that it may take of that; what can wait nowhere else takes more
};

}  // namespace hbmwire::detail
