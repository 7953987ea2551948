// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "hbmwire/endpoint.hpp"

#include "message/matching.hpp"
#include "message/message_buffers.hpp"
#include "verbs/handles.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::transport {
struct Completion;
}

namespace hbmwire::detail {

class Credits;
class Outbox;
class Rendezvous;

/// Messages and immediates that come in, and the receives that take them. Small messages (eager)
/// come with their bytes, which are copied to the receive's memory by the CPU, or carried there by
/// a mover if it is a device's. Rendezvous gets the bytes of large ones.
class Inbox {
 public:
  /// `receives`: of the data lane.
  Inbox(EndpointState& endpoint, Credits& credits, Outbox& outbox, Rendezvous& rendezvous,
        const EndpointOptions& options, std::uint32_t receives);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() = default;

  // --- life

  [[nodiscard]] const MessageBuffers& buffers() const noexcept { return buffers_; }

  /// For the buffers, and for unexpected messages.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  /// `memory`: memory_bytes() of them, registered as `local_key`. Errors: Stage::register_memory.
  Result<void> set_memory(std::byte* memory, std::uint32_t local_key);
  Result<void> post_receives();

  /// A receive that nothing has matched, taken out; null: there is none.
  TransferState* take_any_receive() noexcept { return matching_.take_any_receive(); }

  /// Takes out a receive that nothing has matched. False: it is under way.
  bool cancel(const TransferState& receive) noexcept;

  /// Logs once that messages do not come without a copy. Not on the data path.
  void warn_of_copies() noexcept;

  // --- receives

  Result<Transfer> receive(const Slice& into, bool tagged, const TagMatch& match);
  Result<Transfer> receive_immediate(const Slice& written);

  // --- what comes

  /// A receive of the data lane has completed.
  void on_message(MessageBuffer& buffer, const transport::Completion& completion) noexcept;

  /// A mover has carried a message (TransferState::carry()) to its device, or could not.
  void on_carried(TransferState& transfer, wire::MessageHeader::Outcome outcome) noexcept;

 private:
  /// `is_written`: here, so that its region has to allow that.
  Result<TransferState*> new_receive(const Slice& into, bool is_written);
  void on_header(const wire::MessageHeader& header, MessageBuffer& buffer) noexcept;
  void on_immediate(const Immediate& immediate) noexcept;
  void take_immediate(TransferState& transfer, const Immediate& immediate) noexcept;

  /// Keeps a message that no receive takes.
  void keep(const wire::MessageHeader& header, MessageBuffer& buffer) noexcept;

  /// `transfer` takes the message. `buffer` or `record` holds it, and is given back when its bytes
  /// are not needed there any more.
  void deliver(TransferState& transfer, const wire::MessageHeader& header, MessageBuffer* buffer,
               UnexpectedMessage* record) noexcept;
  void carry_to_device(TransferState& transfer, const wire::MessageHeader& header,
                       MessageBuffer* buffer, UnexpectedMessage* record) noexcept;
  void give_back(MessageBuffer* buffer, UnexpectedMessage* record) noexcept;
  void post_again(MessageBuffer& buffer) noexcept;

  /// The receive fails with `why`, and the sender, if it waits for word, because of `outcome`.
  void refuse(TransferState& transfer, const wire::MessageHeader& header,
              wire::MessageHeader::Outcome outcome, const Error& why) noexcept;

  EndpointState& endpoint_;
  Credits& credits_;
  Outbox& outbox_;
  Rendezvous& rendezvous_;
  MessageBuffers buffers_;
  Matching matching_;
  verbs::Mr for_mover_;            // all of the memory, as LoopbackMover reads it
  bool guarded_ = false;           // no NIC has the application's pages, which may be gone
  bool copied_to_device_ = false;  // to be warned about
  bool warned_ = false;
};

}  // namespace hbmwire::detail
