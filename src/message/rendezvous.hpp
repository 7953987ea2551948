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

/// Large messages, whose bytes do not travel with their header: the receiver reads them, or where
/// the sender's memory is not open to reading has the sender write them (`clear`, `written`).
///
/// It keeps those transfers that only the peer can end, each by an id that the peer gives back. Not
/// all of them are of a rendezvous: a sender waits for word of a small message as well, and a put
/// or get for the peer's process.
class Rendezvous {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// So many messages of the peer, and of this end, may wait for word.
  Rendezvous(EndpointState& endpoint, Outbox& outbox, Receives& receives,
             std::uint32_t receive_depth, std::uint32_t most_asked);

  /// So many of `receives` are there for answers; for each further answer it takes one more.
  void set_sure(std::uint32_t answers) noexcept { sure_ = answers; }

  // --- the sender

  /// Into `header`: where the bytes of `transfer` lie, if the peer may read them.
  void announce(TransferState& transfer, wire::MessageHeader& header) const noexcept;

  [[nodiscard]] bool may_ask() noexcept {
    return !asked_.full() && (open_ < sure_ || receives_.may_take());
  }

  /// `transfer` has a part until the peer answers by the id.
  [[nodiscard]] std::uint32_t ask(TransferState& transfer) noexcept;

  /// The answer has come, or the question was not posted. `transfer` has a part less.
  void end_asking(TransferState& transfer, std::uint32_t id) noexcept;

  void on_clear(const wire::MessageHeader& header) noexcept;
  void on_finished(const wire::MessageHeader& header) noexcept;

  // --- the receiver

  /// Gets the bytes of the message for `transfer`, which fits.
  void pull(TransferState& transfer, const wire::MessageHeader& header) noexcept;
  void on_written(const wire::MessageHeader& header) noexcept;

  /// The receive that the peer was asked to write by this id; null: none is. For TcpLink, which
  /// writes its memory.
  [[nodiscard]] TransferState* written_by_peer(std::uint32_t id) const noexcept {
    return written_.find(id);
  }

  /// The bytes have been read, or moved to the device: the sender is told, and its credit is free.
  void end_reading(const TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

  // --- both

  [[nodiscard]] bool under_way() const noexcept { return !asked_.empty() || !written_.empty(); }

  /// One that has waited for the peer for longer than `patience`; null: none has.
  [[nodiscard]] TransferState* unanswered(Time at, std::chrono::nanoseconds patience) noexcept;

  /// The endpoint ends: nothing waits for the peer any more, and it can write nothing more. `use`:
  /// with each transfer that did.
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
  /// Its answer has come, or comes no more.
  void end_answer() noexcept {
    if (--open_ >= sure_) receives_.give_back();
  }

  [[nodiscard]] std::uint16_t shared_key_of(const RegionState& region) const noexcept;
  void ask_to_write(TransferState& transfer, const wire::MessageHeader& header) noexcept;

  /// By which the peer's NIC may write the receive's memory.
  Result<std::uint32_t> key_for_writing(TransferState& transfer) noexcept;

  /// Not on the data path: a registration for this transfer alone.
  Result<std::uint32_t> open_to_peer(TransferState& transfer) noexcept;
  void note_refusal(TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

  EndpointState& endpoint_;
  Outbox& outbox_;
  Receives& receives_;
  std::uint32_t sure_ = 0;
  std::uint32_t open_ = 0;  // of `asked_`
  Slots asked_;             // messages, puts and gets of which the peer has something to say
  Slots written_;           // receives whose sender writes
  std::vector<std::unique_ptr<MemoryKeyState>> keys_;  // made for those, by their place
  AnswerWatch asked_watch_;
  AnswerWatch written_watch_;
};

}  // namespace hbmwire::detail
