// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "message/answer_watch.hpp"
#include "message/outbox.hpp"
#include "message/receives.hpp"
#include "message/slots.hpp"
#include "registration/memory_key_state.hpp"

namespace hbmwire::detail {

/// Large messages, whose bytes do not travel with their header. The receiver reads the bytes. If
/// the sender's memory is not open to reading, the receiver has the sender write them (messages
/// `clear` and `written`).
///
/// This also holds all transfers that only the peer can end, each by an id that the peer returns.
/// Not all of them are large messages: the sender of a small message may wait for an answer, too,
/// and so does a put or get that the peer's process carries.
class Rendezvous {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `receive_depth`: how many messages of the peer may wait. `most_asked`: how many of this end
  /// may.
  Rendezvous(EndpointState& endpoint, Outbox& outbox, Receives& receives,
             std::uint32_t receive_depth, std::uint32_t most_asked);

  /// `answers`: how many of `receives` are reserved for answers. Each further answer takes one more
  /// receive.
  void set_sure(std::uint32_t answers) noexcept { sure_ = answers; }

  // --- the sender's part

  /// Writes into `header` where the bytes of `transfer` lie, if the peer may read them.
  void announce(TransferState& transfer, wire::MessageHeader& header) const noexcept;

  [[nodiscard]] bool may_ask() noexcept {
    return !asked_.full() && (open_ < sure_ || receives_.may_take());
  }

  /// Opens a question to the peer. `transfer` has a part until the peer answers by the id that this
  /// returns.
  [[nodiscard]] std::uint32_t ask(TransferState& transfer) noexcept;

  /// The answer has come, or the question was not posted. Takes a part from `transfer`.
  void end_asking(TransferState& transfer, std::uint32_t id) noexcept;

  void on_clear(const wire::MessageHeader& header) noexcept;
  void on_finished(const wire::MessageHeader& header) noexcept;

  // --- the receiver's part

  /// Gets the bytes of the message for `transfer`, in which they fit.
  void pull(TransferState& transfer, const wire::MessageHeader& header) noexcept;
  void on_written(const wire::MessageHeader& header) noexcept;

  /// The receive that the peer was asked to write by this id; null if there is none. For TcpLink,
  /// which writes the memory.
  [[nodiscard]] TransferState* written_by_peer(std::uint32_t id) const noexcept {
    return written_.find(id);
  }

  /// The bytes have been read, or moved to the device: tells the sender, whose credit is free
  /// again.
  void end_reading(const TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

  // --- both parts

  [[nodiscard]] bool under_way() const noexcept { return !asked_.empty() || !written_.empty(); }

  /// A transfer that has waited for the peer for longer than `patience`; null if there is none.
  [[nodiscard]] TransferState* unanswered(Time at, std::chrono::nanoseconds patience) noexcept;

  /// The endpoint ends: nothing waits for the peer any more, and the peer can write nothing more.
  /// Calls `use` with each transfer that waited.
  template <class Use>
  void clear(const Use& use) noexcept {
    asked_.clear([&](TransferState& transfer, std::uint32_t /*place*/) {
      end_answer();
      use(transfer);
    });
    written_.clear([&](TransferState& transfer, std::uint32_t place) {
      keys_[place].reset();
      use(transfer);
    });
  }

 private:
  /// A question has been answered, or will not be.
  void end_answer() noexcept {
    if (--open_ >= sure_) receives_.give_back();
  }

  [[nodiscard]] std::uint16_t shared_key_of(const RegionState& region) const noexcept;
  void ask_to_write(TransferState& transfer, const wire::MessageHeader& header) noexcept;

  /// The key by which the peer's NIC may write the receive's memory.
  Result<std::uint32_t> key_for_writing(TransferState& transfer) noexcept;

  /// Registers the memory for this transfer alone. Not on the data path.
  Result<std::uint32_t> open_to_peer(TransferState& transfer) noexcept;
  void note_refusal(TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

  EndpointState& endpoint_;
  Outbox& outbox_;
  Receives& receives_;
  std::uint32_t sure_ = 0;
  std::uint32_t open_ = 0;  // how many of `asked_` are open
  Slots asked_;             // messages, puts and gets that the peer must answer
  Slots written_;           // receives that the sender writes
  std::vector<std::unique_ptr<MemoryKeyState>> keys_;  // keys made for `written_`, at the same
                                                       // places
  AnswerWatch asked_watch_;
  AnswerWatch written_watch_;
};

}  // namespace hbmwire::detail
