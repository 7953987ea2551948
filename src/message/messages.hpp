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

/// Messages and immediates of one endpoint (docs/endpoint.md). A small message is sent at once, as
/// a header with the bytes behind it. The header of a large message says where its bytes lie
/// (Rendezvous). Inbox is the receiving side; completions of receives reach it through ReceivePool.
/// Outbox posts outgoing messages. Credits limits both ends.
///
/// The steps of a message of 1 MiB, if the receiver may read the sender's memory:
///
///   sender    send, post_send -> Rendezvous::announce, ask -> Outbox::post -> the lane
///   receiver  Inbox::on_received, deliver -> Rendezvous::pull -> Outbox::go_urgently,
///             post_pressing -> the lane; when the READ is over, and flushed if the memory is a
///             device's: on_read -> Rendezvous::end_reading -> Outbox::answer_finished
///   sender    Inbox::on_received -> Rendezvous::on_finished: the transfer is over
///
/// All memory is allocated before the endpoint is connected, except for memory that pools of the
/// worker allocate later (ReceivePool, UnexpectedPool).
class Messages {
 public:
  Messages(EndpointState& endpoint, const EndpointOptions& options);
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages() = default;

  // --- life cycle

  /// The size of each receive of the data lane: a header and the bytes that may follow it.
  [[nodiscard]] static std::uint32_t receive_bytes(std::uint32_t eager_bytes) noexcept;

  /// How many receives the data lane has if it does not share them.
  [[nodiscard]] std::uint32_t own_receives() const noexcept;

  /// The size of the memory for outgoing headers.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return outbox_.memory_bytes(); }

  /// Sets that memory: memory_bytes() bytes, registered as `local_key`.
  void set_memory(std::byte* memory, std::uint32_t local_key) noexcept {
    outbox_.set_memory(memory, local_key);
  }

  /// Makes receives for the data lane: shared ones of `pool`, or its own if `pool` is null. Errors:
  /// as ReceivePool::of_lane().
  Result<void> make_receives(ReceivePool* pool, UnexpectedPool& unexpected);

  /// The data lane has its queue pair now. Call it after make_receives() if the send queue was
  /// held. Errors: as make_receives().
  Result<void> take_lane();

  [[nodiscard]] Receives& receives() noexcept { return receives_; }

  [[nodiscard]] const Receives& receives() const noexcept { return receives_; }

  /// How many messages may come here at a time; the peer is told of it.
  [[nodiscard]] std::uint32_t places() const noexcept { return credits_.places(); }

  /// Notes the peer's limits: `places` at the start, `most` at most, and `eager_bytes` for a
  /// message that is sent at once. `longest_message`: of the data lane.
  void connect(std::uint32_t places, std::uint32_t most, std::uint32_t eager_bytes,
               std::uint64_t longest_message) noexcept;

  /// The endpoint ends: marks transfers failed that wait for a message or an answer, and closes
  /// memory that was opened to the peer.
  void mark_failed() noexcept;

  /// Makes unmatched receives fail at once: the peer, or this end, has said goodbye.
  void fail_receives(const Error& why) noexcept;

  /// Whether a message is under way that only the peer can end.
  [[nodiscard]] bool under_way() const noexcept {
    return outbox_.under_way() || rendezvous_.under_way();
  }

  /// A transfer that has waited for the peer for longer than `patience`; null if there is none.
  [[nodiscard]] TransferState* unanswered(Rendezvous::Time at,
                                          std::chrono::nanoseconds patience) noexcept {
    return rendezvous_.unanswered(at, patience);
  }

  /// For messages that come by the ring.
  [[nodiscard]] Inbox& inbox() noexcept { return inbox_; }

  // --- the application's calls

  Result<Transfer> send(const Slice& from, bool tagged, std::uint64_t tag,
                        const SendOptions& options);

  Result<Transfer> receive(const Slice& into, bool tagged, const TagMatch& match) {
    return inbox_.receive(into, tagged, match);
  }

  // --- for an endpoint that hands its messages out

  /// The program has taken the endpoint: its messages may be handed out.
  void be_given() noexcept { inbox_.be_given(); }

  /// Worker::next_message() hands `message` to the program.
  void hand_out(UnexpectedMessage& message) noexcept { inbox_.hand_out(message); }

  /// Errors: as receive(), and the message stays.
  Result<Transfer> receive_handed_out(UnexpectedMessage& message, const Slice& into) {
    return inbox_.receive_handed_out(message, into);
  }

  /// The program does not need the message any more.
  void let_go(UnexpectedMessage& message) noexcept { inbox_.let_go(message); }

  /// Drops messages that were not handed out.
  void drop_queued() noexcept { inbox_.drop_queued(); }

  [[nodiscard]] bool none_handed_out() const noexcept { return inbox_.none_handed_out(); }

  Result<Transfer> receive_immediate(const Slice& written) {
    return inbox_.receive_immediate(written);
  }

  /// Ends a receive that no message has matched. False: it is under way, or `transfer` is no such
  /// receive.
  bool cancel_receive(TransferState& transfer, const Error& why) noexcept;

  // --- progress

  /// Posts a send. False: there is no room or no credit yet, or the endpoint has failed.
  bool post_send(TransferState& transfer) noexcept;

  void post_pressing() noexcept { outbox_.post_pressing(); }

  /// The bytes of a rendezvous have been read.
  void on_read(TransferState& transfer) noexcept {
    rendezvous_.end_reading(transfer, wire::MessageHeader::Outcome::taken);
  }

  /// A mover has finished with `transfer`, which may be the receive of a message.
  void on_moved(TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

  // --- used by movers

  /// Whether an immediate can be posted. It needs a credit as a message does, and must come after
  /// everything that went by the ring.
  [[nodiscard]] bool has_credit() noexcept;

  void spend_credit() noexcept { credits_.spend(); }

  [[nodiscard]] bool may_ask() noexcept {
    return outbox_.may_send(wire::kPlaceBytes) && credits_.may_send() && rendezvous_.may_ask();
  }

  /// Posts the immediate of a put by the ring, once all `bytes` of the put have arrived. False:
  /// there is no room or no credit yet.
  bool tell_by_ring(std::uint32_t immediate, std::uint64_t bytes) noexcept;

  /// Posts `header`, by which `transfer` asks the peer's process to move bytes of its memory at
  /// `place`. Sets MessageHeader::id, by which the peer answers; until then `transfer` has a part.
  /// Returns `errno` of ibv_post_send(3).
  int ask(TransferState& transfer, wire::MessageHeader& header, std::uint64_t place) noexcept;

  void end_asking(TransferState& transfer, std::uint32_t id) noexcept {
    rendezvous_.end_asking(transfer, id);
  }

  /// Makes the endpoint call post_pressing(): the peer has asked for something.
  void press() noexcept { outbox_.press(); }

  /// Answers a request of the peer that is over; `header` says how it ended.
  void answer(const wire::MessageHeader& header) noexcept {
    outbox_.answer(header);
    outbox_.free_place();
  }

  /// The receive that the peer was asked to write by this id; null if there is none.
  [[nodiscard]] TransferState* written_by_peer(std::uint32_t id) const noexcept {
    return rendezvous_.written_by_peer(id);
  }

 private:
  [[nodiscard]] wire::MessageHeader header_of(TransferState& transfer) noexcept;

  EndpointState& endpoint_;
  std::uint32_t eager_bytes_;  // longer messages go by rendezvous
  Receives receives_;
  Credits credits_;
  Outbox outbox_;
  Rendezvous rendezvous_;
  Inbox inbox_;
};

}  // namespace hbmwire::detail
