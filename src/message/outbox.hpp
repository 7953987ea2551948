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

/// Messages that go out. post() posts one at once. Answers, and the READs and WRITEs of rendezvous,
/// need no credit of the peer's: they are posted as soon as the send queue has room, before all
/// that waits there.
class Outbox {
 public:
  /// Bytes for each header that its request can't hold.
  static constexpr std::uint64_t kHeaderPlace = 64;
  /// Those of a message that go behind its header there.
  static constexpr std::uint64_t kBesideHeader = kHeaderPlace - wire::kMessageHeaderBytes;

  /// `pressing`: of the endpoint; post_pressing() is to be called.
  Outbox(EndpointState& endpoint, Credits& credits, std::uint32_t most_answers, bool& pressing)
      : pressing_(pressing), endpoint_(endpoint), credits_(credits), answers_(most_answers) {}

  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox() = default;

  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  /// `memory`: memory_bytes() of them, registered as `local_key`.
  void set_memory(std::byte* memory, std::uint32_t local_key) noexcept;

  /// Whether a message that carries so many bytes, of a program's or of a mover's, can be posted:
  /// by the ring it begins when all is over that NICs have of the endpoint.
  [[nodiscard]] bool may_send(std::uint64_t bytes) noexcept;

  /// One SEND of `header`, and of what `payload` says if it is not null; `errno` of
  /// ibv_post_send(3). The header tells of places that are free again.
  int post(wire::MessageHeader header, const transport::Operation* payload,
           TransferState* transfer) noexcept;

  /// `header` goes without a credit.
  void answer(const wire::MessageHeader& header) noexcept;

  /// Tells the sender of the message that `transfer` took how it ended here.
  void answer_finished(const TransferState& transfer,
                       wire::MessageHeader::Outcome outcome) noexcept;

  /// Tells the sender of a message with this header that it was handed out, or let go of.
  void answer_taken(const wire::MessageHeader& message) noexcept;
  void answer_let_go(const wire::MessageHeader& message) noexcept;

  /// The READ or WRITE that TransferState::operation says. Behind a WRITE goes word of it.
  void go_urgently(TransferState& transfer) noexcept;

  /// The same of what has its mover.
  void go_urgently_by_mover(TransferState& transfer) noexcept;

  /// A place for the peer's messages is free again.
  void free_place() noexcept {
    credits_.free_place();
    if (credits_.are_due()) pressing_ = true;
  }

  /// A message of the peer has come, which may have used up its credits, and keeps its place.
  void tell_if_due() noexcept {
    credits_.grow_if_used_up();
    if (credits_.are_due()) pressing_ = true;
  }

  /// The peer has asked for something that needs room alone.
  void press() noexcept { pressing_ = true; }

  /// Posts what there is room for of that.
  void post_pressing() noexcept;

  [[nodiscard]] bool under_way() const noexcept { return pressing_ || !urgent_.empty(); }

  /// The endpoint ends: nothing waits any more. `use`: with each transfer that did.
  template <class Use>
  void clear(const Use& use) noexcept {
    while (!urgent_.empty()) use(urgent_.take_first());
    answers_.clear();
    pressing_ = false;
  }

 private:
  /// Tells the peer how its message `id` ended here: `length` bytes of it were taken.
  void answer_finished(std::uint32_t id, wire::MessageHeader::Outcome outcome, std::uint64_t length,
                       RemoteSide own_side, bool shared = false) noexcept;

  bool post_urgent() noexcept;

  /// Whether an answer can be: it stands in no order with what NICs have, but for `written`.
  [[nodiscard]] bool may_answer() noexcept;
  int post_by_ring(const wire::MessageHeader& header, const transport::Operation* payload) noexcept;

  bool& pressing_;
  bool guarded_ = false;  // no NIC has the application's pages: the kernel reads them later
  EndpointState& endpoint_;
  Credits& credits_;
  Chain<TransferState> urgent_;
  Ring<wire::MessageHeader> answers_;
  std::uint32_t written_place_ = 0;  // of the send queue, where the last one was pushed
  std::byte* headers_ = nullptr;     // a place for each of the send queue
  std::uint32_t headers_key_ = 0;
};

}  // namespace hbmwire::detail
