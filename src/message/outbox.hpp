// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/chain.hpp"
#include "message/credits.hpp"
#include "message/ring.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::transport {
struct Operation;
}

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;

/// Outgoing messages. post() posts a message at once. Answers, and the READs and WRITEs of
/// rendezvous, need no credit of the peer: they are posted as soon as the send queue has room,
/// before operations that wait there.
class Outbox {
 public:
  /// Bytes of registered memory for each header that does not fit into its request.
  static constexpr std::uint64_t kHeaderPlace = 64;
  /// Bytes of a message that fit behind its header there.
  static constexpr std::uint64_t kBesideHeader = kHeaderPlace - wire::kMessageHeaderBytes;

  /// `pressing`: a flag of the endpoint, set when post_pressing() must be called.
  Outbox(EndpointState& endpoint, Credits& credits, std::uint32_t most_answers, bool& pressing)
      : pressing_(pressing), endpoint_(endpoint), credits_(credits), answers_(most_answers) {}

  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox() = default;

  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  /// Sets the memory for headers: memory_bytes() bytes, registered as `local_key`.
  void set_memory(std::byte* memory, std::uint32_t local_key) noexcept;

  /// Whether a message with this many bytes, of a program or of a mover, can be posted. If it goes
  /// by the ring, NICs must have nothing of the endpoint under way.
  [[nodiscard]] bool may_send(std::uint64_t bytes) noexcept;

  /// Posts one SEND of `header`, and of the bytes of `payload` if it is not null. Returns `errno`
  /// of ibv_post_send(3). The header tells the peer of places that are free again.
  int post(wire::MessageHeader header, const transport::Operation* payload,
           TransferState* transfer) noexcept;

  /// Queues `header`, an answer to the peer, which needs no credit. post_pressing() posts it.
  void answer(const wire::MessageHeader& header) noexcept;

  /// Tells the peer how its message, which `transfer` received, ended here.
  void answer_finished(const TransferState& transfer,
                       wire::MessageHeader::Outcome outcome) noexcept;

  /// Tells the sender of a message with this header that the program has it (taken), or does not
  /// want it (let go).
  void answer_taken(const wire::MessageHeader& message) noexcept;
  void answer_let_go(const wire::MessageHeader& message) noexcept;

  /// Queues the READ or WRITE of TransferState::operation, before operations that wait for the send
  /// queue. post_pressing() posts it. A WRITE is followed by a message `written`.
  void go_urgently(TransferState& transfer) noexcept;

  /// As go_urgently(), for a transfer that has its mover already.
  void go_urgently_by_mover(TransferState& transfer) noexcept;

  /// A place for the peer's messages is free again.
  void free_place() noexcept {
    credits_.free_place();
    if (credits_.are_due()) pressing_ = true;
  }

  /// A message of the peer has come and keeps its place. The peer may have no credits left.
  void tell_if_due() noexcept {
    credits_.grow_if_used_up();
    if (credits_.are_due()) pressing_ = true;
  }

  /// The peer has asked for something that needs only room in the send queue.
  void press() noexcept { pressing_ = true; }

  /// Posts queued transfers and answers, work of StagedServer for the peer, and free places that
  /// are due, as far as there is room.
  void post_pressing() noexcept;

  [[nodiscard]] bool under_way() const noexcept { return pressing_ || !urgent_.empty(); }

  /// The endpoint ends: nothing waits here any more. Calls `use` with each transfer that did.
  template <class Use>
  void clear(const Use& use) noexcept {
    while (!urgent_.empty()) use(urgent_.take_first());
    answers_.clear();
    pressing_ = false;
  }

 private:
  /// Tells the peer how its message `id` ended here, and that `length` of its bytes were taken.
  void answer_finished(std::uint32_t id, wire::MessageHeader::Outcome outcome, std::uint64_t length,
                       RemoteSide own_side, bool shared = false) noexcept;

  bool post_urgent() noexcept;

  /// Whether an answer can be posted. Answers have no order with requests of NICs, except that
  /// `written` must come after its WRITE.
  [[nodiscard]] bool may_answer() noexcept;
  int post_by_ring(const wire::MessageHeader& header, const transport::Operation* payload) noexcept;

  bool& pressing_;
  bool guarded_ = false;  // by TCP: no NIC pins the application's pages, which may be unmapped.
                          // Only the kernel may read them, since it reports pages that are gone
  EndpointState& endpoint_;
  Credits& credits_;
  Chain<TransferState> urgent_;
  Ring<wire::MessageHeader> answers_;
  std::uint32_t written_place_ = 0;  // SendQueue::head() when the last `written` was queued: its
                                     // WRITE is before that place
  std::byte* headers_ = nullptr;     // kHeaderPlace bytes for each place of the send queue
  std::uint32_t headers_key_ = 0;
};

}  // namespace hbmwire::detail
