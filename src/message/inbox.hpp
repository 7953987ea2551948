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

/// Incoming messages and immediates, and the receives that take them. A small (eager) message comes
/// with its bytes. The CPU copies them to the receive's memory, or a mover carries them there if
/// that is a device's. Rendezvous gets the bytes of large messages.
class Inbox final : public Receiver {
 public:
  /// `receives`: those of the data lane.
  Inbox(EndpointState& endpoint, Receives& receives, Credits& credits, Outbox& outbox,
        Rendezvous& rendezvous, const EndpointOptions& options);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Gives back the places of kept messages.
  ~Inbox();

  // --- life cycle

  /// Sets the pool for unexpected messages. Call it before the first message.
  void set_pool(UnexpectedPool& pool) noexcept;

  /// Takes out a receive that no message has matched; null if there is none.
  TransferState* take_any_receive() noexcept { return matching_.take_any_receive(); }

  /// Takes out a receive that no message has matched. False: it is under way.
  bool cancel(const TransferState& receive) noexcept;

  /// Logs once that messages are copied on their way. Not on the data path.
  void warn_of_copies() noexcept;

  // --- receives

  Result<Transfer> receive(const Slice& into, bool tagged, const TagMatch& match);
  Result<Transfer> receive_immediate(const Slice& written);

  // --- for an endpoint that hands its messages out: as in Messages

  void be_given() noexcept;
  void hand_out(UnexpectedMessage& message) noexcept;
  Result<Transfer> receive_handed_out(UnexpectedMessage& message, const Slice& into);
  void let_go(UnexpectedMessage& message) noexcept;
  void drop_queued() noexcept;

  [[nodiscard]] bool none_handed_out() const noexcept { return handed_out_ == 0; }

  // --- incoming messages

  void on_received(ReceiveBuffer& buffer,
                   const transport::Completion& completion) noexcept override;

  /// A message that came by the ring. `message` is in the shared ring, where the peer may change it
  /// at any time.
  void on_passing(std::span<std::byte> message) noexcept;
  void on_passing_immediate(std::uint32_t value, std::uint32_t bytes) noexcept;

  /// A mover has carried a message (TransferState::carry()) to its device, or has failed to.
  void on_carried(TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

 private:
  /// Makes a transfer for a receive. `kind`: receive, for which the memory must allow local
  /// writing, or immediate.
  Result<TransferState*> new_receive(const Slice& into, TransferKind kind);
  void on_message(const std::optional<wire::MessageHeader>& header, std::uint64_t bytes,
                  ReceiveBuffer& buffer) noexcept;

  /// Tells the peer, and posts, whatever a message has made due or possible.
  void go_on_after_message() noexcept;
  void on_header(const wire::MessageHeader& header, ReceiveBuffer& buffer) noexcept;
  void on_immediate(const Immediate& immediate) noexcept;
  void take_immediate(TransferState& transfer, const Immediate& immediate) noexcept;

  /// Keeps an unexpected message.
  void keep(const wire::MessageHeader& header, ReceiveBuffer& buffer) noexcept;

  /// Gives the message to `transfer`. `buffer` or `record` holds the message, and is given back
  /// once its bytes are not needed there any more.
  void deliver(TransferState& transfer, const wire::MessageHeader& header, ReceiveBuffer* buffer,
               UnexpectedMessage* record) noexcept;
  void carry_to_device(TransferState& transfer, const wire::MessageHeader& header,
                       ReceiveBuffer* buffer, UnexpectedMessage* record) noexcept;

  /// Frees `record`, if it is not null, and posts the receive again that held it, or `buffer`.
  void give_back(ReceiveBuffer* buffer, UnexpectedMessage* record) noexcept;
  void post_again(ReceiveBuffer& buffer) noexcept;

  /// No memory is left for a message: the error, and the end of the endpoint with it.
  [[nodiscard]] Error no_room() const noexcept;
  void fail_for_room() noexcept;

  /// Posts whatever has become possible. Only for calls of the program: progress() posts by itself.
  void go_on() noexcept;

  /// Ends the endpoint: with the message in `buffer` the peer has broken the protocol.
  void break_protocol(ReceiveBuffer& buffer, const char* why) noexcept;

  /// Whether one more message may stay in its receive although there is room elsewhere. Half of the
  /// places are reserved for messages that come.
  [[nodiscard]] bool may_stay() const noexcept;

  /// Makes the receive fail with `why`. If the sender waits for an answer, its send fails because
  /// of `outcome`.
  void refuse(TransferState& transfer, const wire::MessageHeader& header,
              wire::MessageHeader::Outcome outcome, const Error& why) noexcept;

  EndpointState& endpoint_;
  Receives& receives_;
  Credits& credits_;
  Outbox& outbox_;
  Rendezvous& rendezvous_;
  Matching matching_;
  std::uint32_t longest_;           // bytes of the longest message that may come, with its header
  std::uint32_t kept_ = 0;          // messages that stay in their receives
  std::uint32_t handed_out_ = 0;    // messages that the program has, or that wait for it
  bool given_ = false;              // the program has the endpoint
  Chain<UnexpectedMessage> early_;  // messages that came before the program had the endpoint
  bool hands_out_;                  // EndpointOptions::messages
  bool guarded_ = false;            // no NIC has the application's pages, so they may be gone:
                                    // copies are guarded
  bool copied_to_device_ = false;   // warn_of_copies() must warn, unless it has warned
  bool warned_ = false;
};

}  // namespace hbmwire::detail
