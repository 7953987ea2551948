// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "hbmwire/endpoint.hpp"

#include "message/credits.hpp"
#include "message/inbox.hpp"
#include "message/outbox.hpp"
#include "message/receives.hpp"
#include "message/rendezvous.hpp"

namespace hbmwire::detail {

/// Messages and immediates of one endpoint (docs/endpoint.md). A send of few bytes goes at once, as
/// a header with the bytes behind it; of more bytes the header says where they lie (Rendezvous).
/// Inbox has the receiving side, which completions of receives lead to (ReceivePool); Outbox
/// posts what goes out; Credits limits both ends.
///
/// The way of a message of 1 MiB, where the receiver may read the sender's memory:
///
///   sender    send, post_send -> Rendezvous::announce, ask -> Outbox::post -> the lane
///   receiver  Inbox::on_received, deliver -> Rendezvous::pull -> Outbox::go_urgently,
///             post_pressing -> the lane; when the READ is over, and flushed if a device's memory
///             is to see it: on_read -> Rendezvous::end_reading -> Outbox::answer_finished
///   sender    Inbox::on_received -> Rendezvous::on_finished: the transfer is over
///
/// All memory is taken before the endpoint is connected, but for what pools of the worker get later
/// (ReceivePool, UnexpectedPool).
class Messages {
 public:
  Messages(EndpointState& endpoint, const EndpointOptions& options);
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages() = default;

  // --- life

  /// The size of each receive of the data lane: a header and what may follow it.
  [[nodiscard]] static std::uint32_t receive_bytes(std::uint32_t eager_bytes) noexcept;

  /// Receives of the data lane where it does not share them.
  [[nodiscard]] std::uint32_t own_receives() const noexcept;

  /// The size of memory for headers to be sent.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return outbox_.memory_bytes(); }

  /// `memory`: memory_bytes() of them, registered as `local_key`.
  void set_memory(std::byte* memory, std::uint32_t local_key) noexcept {
    outbox_.set_memory(memory, local_key);
  }

  /// Receives for the data lane: those that lanes share in `pool`, or its own where that is null.
  /// Errors: as ReceivePool::of_lane().
  Result<void> make_receives(ReceivePool* pool, UnexpectedPool& unexpected);

  /// Behind make_receives(), where the send queue was held: the data lane has its queue pair now.
  /// Errors: as make_receives().
  Result<void> take_lane();

  [[nodiscard]] Receives& receives() noexcept { return receives_; }

  [[nodiscard]] const Receives& receives() const noexcept { return receives_; }

  /// Messages that may come here at a time, which the peer is told of.
  [[nodiscard]] std::uint32_t places() const noexcept { return credits_.places(); }

  /// The peer has `places` for a start and `most` at most, and takes so much at once.
  /// `longest_message`: of the data lane.
  void connect(std::uint32_t places, std::uint32_t most, std::uint32_t eager_bytes,
               std::uint64_t longest_message) noexcept;

  /// They end with the endpoint: what waits for a message or an answer is marked failed, and what
  /// was opened to the peer is closed.
  void mark_failed() noexcept;

  /// Receives that nothing has matched fail at once: the peer has said goodbye, or this end has.
  void fail_receives(const Error& why) noexcept;

  /// Something of a message is under way that only the peer can end.
  [[nodiscard]] bool under_way() const noexcept {
    return outbox_.under_way() || rendezvous_.under_way();
  }

  /// A transfer that has waited for the peer for longer than `patience`; null: none has.
  [[nodiscard]] TransferState* unanswered(Rendezvous::Time at,
                                          std::chrono::nanoseconds patience) noexcept {
    return rendezvous_.unanswered(at, patience);
  }

  /// For what comes by the ring.
  [[nodiscard]] Inbox& inbox() noexcept { return inbox_; }

  // --- the application's calls

  Result<Transfer> send(const Slice& from, bool tagged, std::uint64_t tag,
                        const SendOptions& options);

  Result<Transfer> receive(const Slice& into, bool tagged, const TagMatch& match) {
    return inbox_.receive(into, tagged, match);
  }

  // --- of an endpoint that hands its messages out

  /// The program has the endpoint: its messages may be given.
  void be_given() noexcept { inbox_.be_given(); }

  /// Worker::next_message() gives it to the program.
  void hand_out(UnexpectedMessage& message) noexcept { inbox_.hand_out(message); }

  /// Errors: as receive(), and the message stays.
  Result<Transfer> receive_handed_out(UnexpectedMessage& message, const Slice& into) {
    return inbox_.receive_handed_out(message, into);
  }

  /// The program does not need it any more.
  void let_go(UnexpectedMessage& message) noexcept { inbox_.let_go(message); }

  /// Those that were not given to the program.
  void drop_queued() noexcept { inbox_.drop_queued(); }

  [[nodiscard]] bool none_handed_out() const noexcept { return inbox_.none_handed_out(); }

  Result<Transfer> receive_immediate(const Slice& written) {
    return inbox_.receive_immediate(written);
  }

  /// Ends a receive that nothing has matched. False: it is under way, or is none.
  bool cancel_receive(TransferState& transfer, const Error& why) noexcept;

  // --- progress

  /// Posts a send. False: there is no room or no credit yet, or the endpoint has failed.
  bool post_send(TransferState& transfer) noexcept;

  void post_pressing() noexcept { outbox_.post_pressing(); }

  /// The bytes of a rendezvous have been read.
  void on_read(TransferState& transfer) noexcept {
    rendezvous_.end_reading(transfer, wire::MessageHeader::Outcome::taken);
  }

  /// A mover has had the receive of a message, if it was one.
  void on_moved(TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

  // --- for movers

  /// An immediate needs a credit as a message does, and comes behind what went by the ring.
  [[nodiscard]] bool has_credit() noexcept;

  void spend_credit() noexcept { credits_.spend(); }

  [[nodiscard]] bool may_ask() noexcept {
    return outbox_.may_send(wire::kPlaceBytes) && credits_.may_send() && rendezvous_.may_ask();
  }

  /// Posts the immediate of a put that all is over of, by the ring. False: there is no room or no
  /// credit yet.
  bool tell_by_ring(std::uint32_t immediate, std::uint64_t bytes) noexcept;

  /// Posts `header`, by which `transfer` asks the peer's process to move bytes of its memory at
  /// `place`. The transfer has a part until the peer answers by MessageHeader::id, which is set
  /// here. `errno` of ibv_post_send(3).
  int ask(TransferState& transfer, wire::MessageHeader& header, std::uint64_t place) noexcept;

  void end_asking(TransferState& transfer, std::uint32_t id) noexcept {
    rendezvous_.end_asking(transfer, id);
  }

  /// post_pressing() is to be called: the peer has asked for something.
  void press() noexcept { outbox_.press(); }

  /// A request of the peer's is over: `header` says how.
  void answer(const wire::MessageHeader& header) noexcept {
    outbox_.answer(header);
    outbox_.free_place();
  }

  /// The receive that the peer was asked to write by this id; null: none is.
  [[nodiscard]] TransferState* written_by_peer(std::uint32_t id) const noexcept {
    return rendezvous_.written_by_peer(id);
  }

 private:
  [[nodiscard]] wire::MessageHeader header_of(TransferState& transfer) noexcept;

  EndpointState& endpoint_;
  std::uint32_t eager_bytes_;  // what is longer goes by rendezvous
  Receives receives_;
  Credits credits_;
  Outbox outbox_;
  Rendezvous rendezvous_;
  Inbox inbox_;
};

}  // namespace hbmwire::detail
