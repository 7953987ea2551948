// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "hbmwire/endpoint.hpp"

#include "message/matching.hpp"
#include "message/receiver.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::transport {
struct Completion;
}

namespace hbmwire::detail {

class Credits;
class Outbox;
class Receives;
class Rendezvous;

/// Messages and immediates that come in, and the receives that take them. Small messages (eager)
/// come with their bytes, which are copied to the receive's memory by the CPU, or carried there by
/// a mover if it is a device's. Rendezvous gets the bytes of large ones.
class Inbox final : public Receiver {
 public:
  /// `receives`: of the data lane.
  Inbox(EndpointState& endpoint, Receives& receives, Credits& credits, Outbox& outbox,
        Rendezvous& rendezvous, const EndpointOptions& options);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Gives back what is kept of messages.
  ~Inbox();

  // --- life

  /// Before the first message.
  void set_pool(UnexpectedPool& pool) noexcept;

  /// A receive that nothing has matched, taken out; null: there is none.
  TransferState* take_any_receive() noexcept { return matching_.take_any_receive(); }

  /// Takes out a receive that nothing has matched. False: it is under way.
  bool cancel(const TransferState& receive) noexcept;

  /// Logs once that messages do not come without a copy. Not on the data path.
  void warn_of_copies() noexcept;

  // --- receives

  Result<Transfer> receive(const Slice& into, bool tagged, const TagMatch& match);
  Result<Transfer> receive_immediate(const Slice& written);

  // --- of an endpoint that hands its messages out: as Messages'

  void be_given() noexcept;
  void hand_out(UnexpectedMessage& message) noexcept;
  Result<Transfer> receive_handed_out(UnexpectedMessage& message, const Slice& into);
  void let_go(UnexpectedMessage& message) noexcept;
  void drop_queued() noexcept;

  [[nodiscard]] bool none_handed_out() const noexcept { return handed_out_ == 0; }

  // --- what comes

  void on_received(ReceiveBuffer& buffer,
                   const transport::Completion& completion) noexcept override;

  /// By the ring. `message` lies there, where the peer may go on changing it.
  void on_passing(std::span<std::byte> message) noexcept;
  void on_passing_immediate(std::uint32_t value, std::uint32_t bytes) noexcept;

  /// A mover has carried a message (TransferState::carry()) to its device, or could not.
  void on_carried(TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

 private:
  /// `kind`: receive, whose memory is written here and has to allow that, or immediate.
  Result<TransferState*> new_receive(const Slice& into, TransferKind kind);
  void on_message(const std::optional<wire::MessageHeader>& header, std::uint64_t bytes,
                  ReceiveBuffer& buffer) noexcept;
  void go_on_behind() noexcept;
  void on_header(const wire::MessageHeader& header, ReceiveBuffer& buffer) noexcept;
  void on_immediate(const Immediate& immediate) noexcept;
  void take_immediate(TransferState& transfer, const Immediate& immediate) noexcept;

  /// Keeps a message that no receive takes.
  void keep(const wire::MessageHeader& header, ReceiveBuffer& buffer) noexcept;

  /// `transfer` takes the message. `buffer` or `record` holds it, and is given back when its bytes
  /// are not needed there any more.
  void deliver(TransferState& transfer, const wire::MessageHeader& header, ReceiveBuffer* buffer,
               UnexpectedMessage* record) noexcept;
  void carry_to_device(TransferState& transfer, const wire::MessageHeader& header,
                       ReceiveBuffer* buffer, UnexpectedMessage* record) noexcept;
  void give_back(ReceiveBuffer* buffer, UnexpectedMessage* record) noexcept;
  void post_again(ReceiveBuffer& buffer) noexcept;
  [[nodiscard]] Error no_room() const noexcept;
  void fail_for_room() noexcept;

  /// Posts what has become possible outside of progress().
  void go_on() noexcept;
  void refuse(ReceiveBuffer& buffer, const char* why) noexcept;

  /// Whether one more message may stay in its receive, though there is room elsewhere: half of the
  /// places are for those that come.
  [[nodiscard]] bool may_stay() const noexcept;

  /// The receive fails with `why`, and the sender, if it waits for word, because of `outcome`.
  void refuse(TransferState& transfer, const wire::MessageHeader& header,
              wire::MessageHeader::Outcome outcome, const Error& why) noexcept;

  EndpointState& endpoint_;
  Receives& receives_;
  Credits& credits_;
  Outbox& outbox_;
  Rendezvous& rendezvous_;
  Matching matching_;
  std::uint32_t longest_;           // bytes of a message that may come, with its header
  std::uint32_t kept_ = 0;          // messages that stay in their receive
  std::uint32_t handed_out_ = 0;    // that the program has, or that wait for it
  bool given_ = false;              // the program has the endpoint
  Chain<UnexpectedMessage> early_;  // that came before it had
  bool hands_out_;                  // EndpointOptions::messages
  bool guarded_ = false;            // no NIC has the application's pages, which may be gone
  bool copied_to_device_ = false;   // to be warned about
  bool warned_ = false;
};

}  // namespace hbmwire::detail
