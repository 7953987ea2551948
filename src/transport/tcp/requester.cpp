// SPDX-License-Identifier: MIT
#include "transport/tcp/requester.hpp"

#include <algorithm>
#include <cerrno>

namespace hbmwire::transport {

std::uint32_t TcpRequester::key_of(std::uint64_t token) {
  const auto known = std::ranges::find(tokens_, token);
  const auto at = static_cast<std::uint32_t>(known - tokens_.begin());
  if (known == tokens_.end()) tokens_.push_back(token);
  return at;
}

TcpRequester::Request TcpRequester::request_of(const Operation& from) const noexcept {
  Request request;
  request.fenced = from.fenced;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the elements of a lane are addresses, as with a NIC.
  request.parts[0] = {reinterpret_cast<std::byte*>(from.local), from.length};
  request.length = from.length;
  request.remote = from.remote;
  request.key = from.remote_key;  // an index in tokens_, or the peer's receive
  request.with_immediate = from.with_immediate;
  if (from.with_immediate) request.immediate = from.immediate;
  request.reads = from.opcode != Opcode::write;
  switch (from.opcode) {
    case Opcode::write:
      request.kind = Frame::Kind::write;
      request.window = from.in_window;
      break;
    case Opcode::read:
      // A READ of no bytes ends when all requests before it have ended, like a WRITE of no bytes.
      request.kind = request.length == 0 ? Frame::Kind::write : Frame::Kind::read;
      break;
    case Opcode::fetch_add:
      request.kind = Frame::Kind::fetch_add;
      break;
    case Opcode::compare_swap:
      request.kind = Frame::Kind::compare_swap;
      break;
  }
  request.operands = {from.compare_or_add, from.swap};
  // No key has the token 0, so the peer refuses it.
  if (request.length != 0 && !request.window)
    request.key = request.key < tokens_.size() ? tokens_[request.key] : 0;
  return request;
}

int TcpRequester::post(const Request& request) noexcept {
  if (!link_.data_open) {
    link_.flush(request.id);
    return 0;
  }
  if (requests_.full()) return ENOMEM;
  requests_.push(request);
  return 0;
}

int TcpRequester::post(const Operation& operation, std::uint64_t id, bool signaled) noexcept {
  Request request = request_of(operation);
  request.id = id;
  request.signaled = signaled;
  return post(request);
}

int TcpRequester::post(const Message& message, std::uint64_t id) noexcept {
  Request request;
  request.id = id;
  request.signaled = true;
  request.fenced = message.fenced;
  request.parts = {memory_of(message.header), memory_of(message.payload)};
  request.length = std::uint64_t{message.header.length} + message.payload.length;
  return post(request);
}

/// Fills the frame with the next part of a WRITE. Returns true if it is the last one.
bool TcpRequester::fill_write(OutFrame& frame, Request& request) noexcept {
  Frame& header = frame.header;
  const auto length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(request.length - request.begun_bytes, wire::kMaxTcpPayload));
  frame.parts[0] = request.parts[0].subspan(request.begun_bytes, length);
  frame.of_application = true;
  header.address += request.begun_bytes;
  header.length = length;
  request.begun_bytes += length;
  if (request.window) header.flags |= Frame::kWindow;
  if (request.begun_bytes != request.length) return false;
  header.flags |= Frame::kLast;
  if (request.with_immediate) header.flags |= Frame::kImmediate;
  header.value = request.immediate;
  return true;
}

bool TcpRequester::next(OutFrame& frame) noexcept {
  if (next_ == requests_.end) return false;
  Request& request = requests_[next_];
  if (request.fenced && reads_ != 0) return false;
  Frame& header = frame.header;
  header.kind = request.kind;
  if (request.kind != Frame::Kind::message) {
    header.number = next_;
    header.address = request.remote;
    header.key = request.key;
  }
  bool last = true;
  switch (request.kind) {
    case Frame::Kind::write:
      last = fill_write(frame, request);
      break;
    case Frame::Kind::read:
      header.value = static_cast<std::uint32_t>(request.length);
      ++reads_;
      break;
    case Frame::Kind::fetch_add:
    case Frame::Kind::compare_swap:
      frame.parts[0] = std::as_bytes(std::span(&request.operands, 1));
      header.length = sizeof request.operands;
      ++reads_;
      break;
    default:
      frame.parts = {request.parts[0], request.parts[1]};
      frame.of_application = !request.parts[1].empty();
      header.length = static_cast<std::uint32_t>(request.length);
      break;
  }
  frame.mark = mark_of(last ? TcpMark::end_of_request : TcpMark::nothing, next_);
  if (last) ++next_;
  return true;
}

void TcpRequester::sent(std::uint32_t number) noexcept {
  if (!requests_.holds(number)) return;
  Request& request = requests_[number];
  request.sent = true;
  if (request.kind != Frame::Kind::message) return;
  request.over = true;
  complete_requests();
}

void TcpRequester::lose(std::uint32_t number) noexcept {
  link_.broken = true;
  if (!requests_.holds(number)) return;
  requests_[number].over = true;
  requests_[number].status = CompletionStatus::local_protection;
  complete_requests();
}

/// Completes requests in the order in which they were posted.
void TcpRequester::complete_requests() noexcept {
  for (; !requests_.empty() && requests_[requests_.first].over; ++requests_.first) {
    const Request& request = requests_[requests_.first];
    if (request.signaled || request.status != CompletionStatus::success)
      link_.complete({.id = request.id, .status = request.status});
  }
}

void TcpRequester::flush() noexcept {
  for (; !requests_.empty(); ++requests_.first) {
    const Request& request = requests_[requests_.first];
    // A request may have succeeded while one before it is still under way.
    const bool over = request.over && request.status == CompletionStatus::success;
    link_.complete(
        {.id = request.id, .status = over ? CompletionStatus::success : CompletionStatus::flushed});
  }
  next_ = requests_.end;
}

void TcpRequester::forget() noexcept {
  requests_.first = requests_.end;
  next_ = requests_.end;
}

// --- the peer's answers

void TcpRequester::on_done(const Frame& frame) noexcept {
  if (link_.broken && !requests_.holds(frame.number)) return;
  // A request that was not sent must not end: its memory would be read after its owner has reused
  // it.
  if (!requests_.holds(frame.number) || !requests_[frame.number].sent)
    return link_.break_protocol("the peer says that a request is over which it was not sent");
  // `done` ends this WRITE and those before it. A SEND ends in sent(), and a READ with its bytes.
  for (std::uint32_t number = requests_.first; number != frame.number + 1; ++number) {
    Request& request = requests_[number];
    if (request.kind == Frame::Kind::write) request.over = true;
  }
  complete_requests();
}

void TcpRequester::on_failed(const Frame& frame) noexcept {
  if (link_.broken && !requests_.holds(frame.number)) return;
  // The peer may refuse a long request at its first frame, while the last ones are still to be
  // sent.
  const std::uint32_t sent = next_ - requests_.first;
  const bool is_begun = requests_.holds(frame.number) && (frame.number - requests_.first < sent ||
                                                          requests_[frame.number].begun_bytes != 0);
  if (!is_begun) return link_.break_protocol("the peer refuses a request that it was not sent");
  Request& request = requests_[frame.number];
  link_.broken = link_.broken || !request.sent;
  request.over = true;
  request.status = frame.status == Frame::Status::broken ? CompletionStatus::remote_operation
                                                         : CompletionStatus::remote_access;
  complete_requests();
}

FrameUser::Place TcpRequester::place(const Frame& frame, std::uint32_t offset,
                                     std::span<std::byte>& memory) noexcept {
  Request* const request = requests_.holds(frame.number) ? &requests_[frame.number] : nullptr;
  const std::uint64_t received = request == nullptr ? 0 : request->begun_bytes + offset;
  const bool asked = request != nullptr && request->sent && !request->over && request->reads;
  // `kLast` must be on the frame that completes the request, and on no other.
  if (!asked || frame.length - offset > request->length - received ||
      frame.has(Frame::kLast) != (received + frame.length - offset == request->length)) {
    link_.break_protocol("the peer sent bytes that no request asked for");
    return FrameUser::Place::later;
  }
  memory = request->parts[0].subspan(received, frame.length - offset);
  return FrameUser::Place::application;
}

void TcpRequester::on_data(const Frame& frame) noexcept {
  Request& request = requests_[frame.number];
  request.begun_bytes += frame.length;
  if (!frame.has(Frame::kLast)) return;
  --reads_;
  request.over = true;
  complete_requests();
}

}  // namespace hbmwire::transport
