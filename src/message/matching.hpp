// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/chain.hpp"
#include "message/ring.hpp"
#include "message/unexpected_pool.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

struct MessageBuffer;
struct TransferState;

/// A message that no receive has matched yet, or whose bytes are on their way to a device.
struct UnexpectedMessage {
  UnexpectedMessage* next = nullptr;
  wire::MessageHeader header;
  std::byte* bytes = nullptr;       // `header.length` of them; null: it carries none
  MessageBuffer* buffer = nullptr;  // which holds them; null: the pool does, or it carries none
  std::uint32_t units = 0;          // of the pool, from `bytes` on; 0: the pool holds none of it
};

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
  /// There are never more immediates, as each needs a credit.
  explicit Matching(std::uint32_t most_immediates) : immediates_(most_immediates) {}

  /// Before the first message: `pool_units` units of memory at `pool` for bytes that wait outside
  /// their buffer. At most `most_messages` have another place (a credit, or a buffer of their own).
  void make(std::byte* pool, std::uint32_t pool_units, std::uint32_t most_messages);

  // --- messages

  /// The receive that takes a message with this header, taken out; null: there is none.
  TransferState* take_receive(const wire::MessageHeader& header) noexcept;

  /// Keeps a message that no receive takes. Its bytes stay in `buffer` if that `may_stay`, or if
  /// the pool has no room; the result tells (UnexpectedMessage::buffer).
  const UnexpectedMessage& keep(const wire::MessageHeader& header, MessageBuffer& buffer,
                                bool may_stay) noexcept;

  /// The message that `receive` takes, taken out; null: there is none. release() follows.
  UnexpectedMessage* take_message(const TransferState& receive) noexcept;

  /// A record for a message whose bytes stay in `buffer`, though a receive has taken it. release()
  /// follows.
  UnexpectedMessage& hold(const wire::MessageHeader& header, MessageBuffer& buffer) noexcept;

  /// The bytes of a message are not needed any more. The buffer that held them, or null.
  MessageBuffer* release(UnexpectedMessage& message) noexcept;

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
  UnexpectedMessage& new_record(const wire::MessageHeader& header) noexcept;

  Chain<TransferState> plain_receives_;
  Chain<TransferState> tagged_receives_;
  Chain<TransferState> immediate_receives_;
  Chain<UnexpectedMessage> plain_messages_;
  Chain<UnexpectedMessage> tagged_messages_;
  Ring<Immediate> immediates_;
  std::vector<UnexpectedMessage> records_;
  UnexpectedMessage* free_record_ = nullptr;
  UnexpectedPool pool_;
};

}  // namespace hbmwire::detail
