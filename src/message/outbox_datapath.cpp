// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <cstring>

#include "endpoint/endpoint_state.hpp"
#include "endpoint/send_queue_datapath.hpp"
#include "message/outbox.hpp"

namespace hbmwire::detail {

using transport::Operation;
using wire::MessageHeader;

std::uint64_t Outbox::memory_bytes() const noexcept {
  return endpoint_.sends.size() * kHeaderPlace;
}

void Outbox::set_memory(std::byte* memory, std::uint32_t local_key) noexcept {
  headers_ = memory;
  headers_key_ = local_key;
  guarded_ = endpoint_.paths.by_tcp();
}

bool Outbox::may_send(std::uint64_t bytes) noexcept {
  if (!endpoint_.movers.ring.is_on()) [[likely]]
    return endpoint_.sends.has_room(SendQueue::kRequestsOfPost);
  // A message by the ring would overtake earlier operations that are still with a NIC.
  return endpoint_.sends.outstanding() == 0 &&
         endpoint_.movers.ring.has_room(
             static_cast<std::uint32_t>(wire::kMessageHeaderBytes + bytes));
}

bool Outbox::may_answer() noexcept {
  if (!endpoint_.movers.ring.is_on()) [[likely]]
    return endpoint_.sends.has_room(SendQueue::kRequestsOfPost);
  // By the ring `written` could overtake the WRITE that it tells of. `written_place_` is behind the
  // WRITE of the last `written`, which is late enough for an earlier one.
  const bool behind_bytes =
      !answers_.empty() && answers_.front().kind == MessageHeader::Kind::written;
  if (behind_bytes && !endpoint_.sends.is_over_before(written_place_)) return false;
  return endpoint_.movers.ring.has_room(wire::kMessageHeaderBytes);
}

/// Posts a message by the ring. The send is over with this call, since the ring has the bytes.
int Outbox::post_by_ring(const MessageHeader& header, const Operation* payload) noexcept {
  std::array<std::byte, wire::kMessageHeaderBytes> head;
  encode(header, head.data());
  const std::uint64_t length = payload == nullptr ? 0 : payload->length;
  const auto* const bytes = length == 0 ? nullptr : std::bit_cast<const std::byte*>(payload->local);
  return endpoint_.movers.ring.send(
      {.head = head, .body = {bytes, length}, .guarded = guarded_ && header.carries()});
}

int Outbox::post(MessageHeader header, const Operation* payload, TransferState* transfer) noexcept {
  header.credits = credits_.to_tell();
  if (endpoint_.movers.ring.is_on()) {
    const int result = post_by_ring(header, payload);
    if (result == 0) credits_.told(header.credits, header.kind == MessageHeader::Kind::credit);
    return result;
  }
  const std::uint64_t length = payload == nullptr ? 0 : payload->length;
  const std::uint64_t all = wire::kMessageHeaderBytes + length;
  // The payload stays where it is if this CPU may not copy it: by TCP (`guarded_`), or while a get
  // before the fence may still write it. Without carries() it is no memory of the application, but
  // of the caller's stack (Messages::ask()), and is copied now.
  const bool is_read_later =
      length != 0 && (guarded_ || !endpoint_.sends.may_be_copied()) && header.carries();
  std::array<std::byte, 128> in_request;
  transport::Message message;
  message.inlined = !is_read_later && all <= endpoint_.sends.inline_bytes();
  // If the request cannot hold the header, the header must stay in memory until the request is
  // over.
  const bool fits_in_request = message.inlined && all <= in_request.size();
  std::byte* const bytes =
      fits_in_request ? in_request.data() : headers_ + endpoint_.sends.index() * kHeaderPlace;
  encode(header, bytes);
  message.header = {.address = reinterpret_cast<std::uint64_t>(bytes),
                    .length = wire::kMessageHeaderBytes,
                    .key = headers_key_};
  message.fenced = transfer != nullptr && transfer->operation.fenced;
  if (is_read_later || (length > kBesideHeader && !fits_in_request)) {
    message.payload = {.address = payload->local,
                       .length = static_cast<std::uint32_t>(length),
                       .key = payload->local_key};
  } else if (length != 0) {
    // One element is less work for a NIC than two.
    std::memcpy(bytes + wire::kMessageHeaderBytes, std::bit_cast<const void*>(payload->local),
                length);
    message.header.length += static_cast<std::uint32_t>(length);
  }
  if (const int result = endpoint_.sends.post(message, transfer); result != 0) [[unlikely]]
    return result;
  credits_.told(header.credits, header.kind == MessageHeader::Kind::credit);
  return 0;
}

void Outbox::answer(const MessageHeader& header) noexcept {
  answers_.push(header);
  pressing_ = true;
}

void Outbox::answer_finished(const TransferState& transfer,
                             MessageHeader::Outcome outcome) noexcept {
  const bool taken = outcome == MessageHeader::Outcome::taken;
  answer_finished(transfer.peer_id, outcome, taken ? transfer.bytes : 0, transfer.own_side(),
                  transfer.path == Path::shared_memory);
}

void Outbox::answer_taken(const MessageHeader& message) noexcept {
  answer_finished(message.id, MessageHeader::Outcome::taken, message.length,
                  remote_side(MemoryType::host, Path::host));
}

void Outbox::answer_let_go(const MessageHeader& message) noexcept {
  answer_finished(message.id, MessageHeader::Outcome::let_go, 0,
                  remote_side(MemoryType::host, Path::host));
}

void Outbox::answer_finished(std::uint32_t id, MessageHeader::Outcome outcome, std::uint64_t length,
                             RemoteSide own_side, bool shared) noexcept {
  MessageHeader header;
  header.kind = MessageHeader::Kind::finished;
  header.id = id;
  header.outcome = outcome;
  header.length = length;
  header.path = own_side;
  header.shared_key = shared ? 1 : 0;  // in `finished` a flag: the bytes went by shared memory
  answer(header);
}

void Outbox::go_urgently(TransferState& transfer) noexcept {
  // Memory that this end's NIC does not reach goes by pieces of host memory.
  if (endpoint_.is_staged(transfer)) {
    transfer.move_by(*endpoint_.worker_nic.staged, Staged{});
  } else {
    transfer.move_by(endpoint_.movers.piece, Pieces{});
  }
  go_urgently_by_mover(transfer);
}

void Outbox::go_urgently_by_mover(TransferState& transfer) noexcept {
  ++transfer.parts;  // until all of it is posted
  urgent_.append(transfer);
  pressing_ = true;
}

void Outbox::post_pressing() noexcept {
  if (!post_urgent()) return;
  if (endpoint_.movers.server.is_busy()) [[unlikely]] {
    endpoint_.movers.server.advance();
    if (endpoint_.phase != EndpointPhase::ready) return;
  }
  int result = 0;
  while (result == 0 && !answers_.empty() && may_answer()) {
    result = post(answers_.front(), nullptr, nullptr);
    if (result == 0) answers_.pop();
  }
  if (result == 0 && credits_.are_due() && may_answer())
    result = post({.kind = MessageHeader::Kind::credit}, nullptr, nullptr);
  if (result != 0) return endpoint_.fail_post(result, nullptr);
  pressing_ = !answers_.empty() || !urgent_.empty() || credits_.are_due() ||
              endpoint_.movers.server.is_busy();
}

/// Begins queued transfers. False if a failed post has ended the endpoint.
bool Outbox::post_urgent() noexcept {
  // A queue that is held, since it has no lane yet, stops no transfer that needs none. The others
  // ask for the lane in advance() (SendQueue::has_room()).
  while (!urgent_.empty() &&
         (endpoint_.sends.room() >= SendQueue::kRequestsOfPost || endpoint_.sends.is_held())) {
    TransferState& transfer = *urgent_.first;
    if (!transfer.mover->advance(transfer) || endpoint_.phase != EndpointPhase::ready)
      return endpoint_.phase == EndpointPhase::ready;
    urgent_.take_first();
    --transfer.parts;  // at least one piece is under way, or it is over
    const bool writes = transfer.operation.opcode == transport::Opcode::write;
    // Built before finish(), which may end the transfer.
    MessageHeader header;
    header.kind = MessageHeader::Kind::written;
    header.id = transfer.peer_id;
    header.length = transfer.bytes;
    header.path = transfer.own_side();
    const bool moved = transfer.mover->finish(transfer);
    if (!moved || !writes) continue;
    // On the same queue pair this comes after the bytes. A ring is another way, so it waits until
    // they have arrived (may_answer()).
    answers_.push(header);
    written_place_ = endpoint_.sends.head();
  }
  return true;
}

}  // namespace hbmwire::detail
