// SPDX-License-Identifier: MIT
#include "endpoint/tcp_link.hpp"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/incarnation.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

// What a frame's mark says of it, beside a request's number.
constexpr std::uint64_t kNothing = 0;
constexpr std::uint64_t kWord = 1;
constexpr std::uint64_t kEndOfRequest = 2;
constexpr std::uint64_t kAnswer = 3;
constexpr std::uint64_t kKinds = 3;

std::uint64_t mark_of(std::uint32_t number, bool end) noexcept {
  return (end ? kEndOfRequest : kNothing) | std::uint64_t{number} << 2U;
}

std::span<std::byte> memory_of(const transport::Element& element) noexcept {
  return {std::bit_cast<std::byte*>(element.address), element.length};
}

/// The requests as they were.
class TcpChain final : public transport::PreparedChain {
 public:
  explicit TcpChain(std::span<const transport::Request> requests)
      : PreparedChain(requests.size()), requests_(requests.begin(), requests.end()) {}

  TcpChain(const TcpChain&) = delete;
  TcpChain& operator=(const TcpChain&) = delete;
  ~TcpChain() override = default;

  [[nodiscard]] std::span<const transport::Request> requests() const noexcept { return requests_; }

 private:
  std::vector<transport::Request> requests_;
};

}  // namespace

TcpLane::TcpLane(TcpLink& link, transport::CompletionQueue& completions, bool control)
    : Lane(completions, false), link_(link), control_(control) {
  local_.queue_pair = control ? 1 : 0;  // EndpointOffer::over_tcp()
  local_.max_message_bytes = TcpLink::kMaxMessage;
  local_.incarnation = incarnation();
}

int TcpLane::post(const transport::Operation& operation, std::uint64_t id) noexcept {
  const int result = link_.post(operation, id, true);
  link_.send();
  return result;
}

int TcpLane::post(const transport::Message& message, std::uint64_t id) noexcept {
  const int result = link_.post(message, id, control_);
  link_.send();
  return result;
}

int TcpLane::post_chain(std::span<const transport::Request> chain, bool fenced,
                        bool& begun) noexcept {
  int result = 0;
  begun = false;
  for (const transport::Request& request : chain) {
    transport::Operation operation = request.operation;
    operation.fenced = operation.fenced || std::exchange(fenced, false);
    result = link_.post(operation, request.id, request.signaled);
    if (result != 0) break;
    begun = true;
  }
  begun = begun && result != 0;
  link_.send();
  return result;
}

int TcpLane::post(std::span<const transport::Request> chain, bool& begun) noexcept {
  return post_chain(chain, false, begun);
}

std::unique_ptr<transport::PreparedChain> TcpLane::prepare(
    std::span<const transport::Request> requests) const {
  return std::make_unique<TcpChain>(requests);
}

int TcpLane::post(transport::PreparedChain& chain, bool fenced, bool& begun) noexcept {
  return post_chain(static_cast<TcpChain&>(chain).requests(), fenced, begun);
}

int TcpLane::post_receives(std::span<const transport::Receive> receives,
                           std::size_t& posted) noexcept {
  return link_.post_receives(receives, control_, posted);
}

Result<void> TcpLane::to_error() {
  link_.break_off(control_);
  return {};
}

void TcpLane::cut() noexcept { link_.cut(); }

template <class T>
TcpLink::Numbered<T>::Numbered(std::uint32_t at_least) : entries(std::bit_ceil(at_least)) {}

TcpLink::TcpLink(TcpPort& port, EndpointState& endpoint, const Depths& depths)
    : port_(port),
      endpoint_(endpoint),
      requests_(depths.data_requests),
      words_(depths.control),
      receives_(depths.data_receives),
      control_receives_(depths.control) {
  completions_ = requests_.entries.size() + words_.entries.size() + receives_.entries.size() +
                 control_receives_.entries.size();
  port_.add(*this, completions_);
}

TcpLink::~TcpLink() {
  end_arriving();
  port_.forget(*this, std::exchange(completions_, 0));
  if (watched_ != 0) endpoint_.worker->sockets.forget(stream_->fd());
}

std::unique_ptr<transport::Lane> TcpLink::make_lane(bool control) {
  return std::make_unique<TcpLane>(*this, port_, control);
}

Result<void> TcpLink::start(Fd socket) {
  // Of the handshake: it would end a connection whose peer's process is stopped and has no room.
  const unsigned none = 0;
  if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none) != 0) {
    return tl::make_unexpected(system_error(Stage::connect, "setsockopt", errno, endpoint_.peer));
  }
  stream_.emplace(std::move(socket), static_cast<transport::FrameUser&>(*this), endpoint_.peer);
  HBMWIRE_TRY(endpoint_.worker->sockets.watch(stream_->fd(), EPOLLIN, *this));
  watched_ = EPOLLIN;
  send();
  return {};
}

// --- the worker's progress

void TcpLink::on_socket() noexcept { progress(); }

void TcpLink::progress() noexcept {
  if (!stream_) return;
  if (!arriving_.empty()) [[unlikely]]
    go_on_arriving();
  if (!data_open_ && !answers_.empty()) [[unlikely]]
    go_on_answers();
  if (fault_) return;
  if (const auto received = stream_->receive(); !received) return fail(received.error());
  if (asked_.empty() && answers_.empty()) [[likely]] {
    send();
  } else {
    serve_reads();
  }
}

void TcpLink::send() noexcept {
  // What fails is read of: the peer may have said why.
  if (!stream_ || fault_) return;
  static_cast<void>(stream_->send());
  // Whoever sleeps meanwhile, in another thread perhaps, is woken when there is room.
  if (watched_ == EPOLLIN && stream_->wants_out()) [[unlikely]]
    wake_by_socket();
}

void TcpLink::wake_by_socket() noexcept {
  if (watched_ == 0) return;
  const std::uint32_t wanted = stream_->wants_out() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (wanted != watched_) endpoint_.worker->sockets.change(stream_->fd(), wanted, *this);
  watched_ = wanted;
}

void TcpLink::hang_up() noexcept {
  if (stream_) ::shutdown(stream_->fd(), SHUT_WR);
}

void TcpLink::ask_machine() noexcept {
  asks_machine_ = true;
  send();
}

bool TcpLink::is_silent(Clock::time_point now, std::chrono::nanoseconds bound) noexcept {
  return stream_ && !fault_ && stream_->is_silent(now, bound);
}

void TcpLink::fail(const Error& why) noexcept {
  if (fault_) return;
  fault_ = why;
  if (std::exchange(watched_, 0) != 0) endpoint_.worker->sockets.forget(stream_->fd());
  ++endpoint_.worker->event_count;
  endpoint_.worker->look_soon();
}

void TcpLink::break_protocol(const char* why) noexcept {
  fail(make_error(Errc::protocol, Stage::complete, why, endpoint_.peer, Hint::other_version));
}

void TcpLink::complete(std::uint64_t id, Status status, std::uint32_t bytes) noexcept {
  port_.complete(*this, {.id = id, .bytes = bytes, .status = status});
}

// --- its end

void TcpLink::break_off(bool control) noexcept {
  if (control) {
    flush_control();
    shut();
    return;
  }
  if (!std::exchange(data_open_, false)) return;
  if (stream_) stream_->cut_short();
  next_word_ = words_.first;  // those that were taken to be sent, and were not
  asked_.clear();
  go_on_answers();
  flush_data();
}

void TcpLink::flush_data() noexcept {
  for (; !requests_.empty(); ++requests_.first) {
    const Request& request = requests_[requests_.first];
    const bool over = request.over && request.status == Status::success;
    complete(request.id, over ? Status::success : Status::flushed);
  }
  next_request_ = requests_.end;
  for (; !receives_.empty(); ++receives_.first)
    complete(receives_[receives_.first].id, Status::flushed);
}

void TcpLink::flush_control() noexcept {
  if (!std::exchange(control_open_, false)) return;
  for (; !words_.empty(); ++words_.first) complete(words_[words_.first].id, Status::flushed);
  next_word_ = words_.end;
  for (; !control_receives_.empty(); ++control_receives_.first)
    complete(control_receives_[control_receives_.first].id, Status::flushed);
}

void TcpLink::shut() noexcept {
  if (!stream_) return;
  // What was read nobody's is a reset to the peer, which may then not hear what was said last.
  static_cast<void>(stream_->receive());
  if (std::exchange(watched_, 0) != 0) endpoint_.worker->sockets.forget(stream_->fd());
  stream_->cut_short();
  stream_->close();
  if (!fault_)
    fault_ =
        make_error(Errc::cancelled, Stage::complete, "the endpoint was closed", endpoint_.peer);
}

void TcpLink::cut() noexcept {
  data_open_ = control_open_ = false;
  shut();
  end_arriving();
  requests_.first = requests_.end;
  next_request_ = requests_.end;
  words_.first = words_.end;
  next_word_ = words_.end;
  receives_.first = receives_.end;
  control_receives_.first = control_receives_.end;
  port_.forget(*this, std::exchange(completions_, 0));
}

// --- going

std::uint32_t TcpLink::key_of(std::uint64_t token) {
  const auto known = std::ranges::find(tokens_, token);
  const auto at = static_cast<std::uint32_t>(known - tokens_.begin());
  if (known == tokens_.end()) tokens_.push_back(token);
  return at;
}

TcpLink::Request TcpLink::request_of(const transport::Operation& from) const noexcept {
  Request request;
  request.fenced = from.fenced;
  request.parts[0] = {std::bit_cast<std::byte*>(from.local), from.length};
  request.length = from.length;
  request.remote = from.remote;
  request.key = from.remote_key;  // a place in our own table, or the peer's receive
  request.with_immediate = from.with_immediate;
  if (from.with_immediate) request.immediate = from.immediate;
  request.reads = from.opcode != transport::Opcode::write;
  switch (from.opcode) {
    case transport::Opcode::write:
      request.kind = Frame::Kind::write;
      request.window = from.in_window;
      break;
    case transport::Opcode::read:
      // Of nothing it is over when all before it is, as a WRITE of nothing.
      request.kind = request.length == 0 ? Frame::Kind::write : Frame::Kind::read;
      break;
    case transport::Opcode::fetch_add:
      request.kind = Frame::Kind::fetch_add;
      break;
    case transport::Opcode::compare_swap:
      request.kind = Frame::Kind::compare_swap;
      break;
  }
  request.operands = {from.compare_or_add, from.swap};
  // None is 0, and the peer refuses it.
  if (request.length != 0 && !request.window)
    request.key = request.key < tokens_.size() ? tokens_[request.key] : 0;
  return request;
}

int TcpLink::post_data(const Request& request) noexcept {
  if (!data_open_) {
    complete(request.id, Status::flushed);
    return 0;
  }
  if (requests_.full()) return ENOMEM;
  requests_[requests_.end] = request;
  ++requests_.end;
  return 0;
}

int TcpLink::post(const transport::Operation& operation, std::uint64_t id, bool signaled) noexcept {
  Request request = request_of(operation);
  request.id = id;
  request.signaled = signaled;
  return post_data(request);
}

int TcpLink::post(const transport::Message& message, std::uint64_t id, bool control) noexcept {
  if (!control) {
    Request request;
    request.id = id;
    request.signaled = true;
    request.fenced = message.fenced;
    request.parts = {memory_of(message.header), memory_of(message.payload)};
    request.length = std::uint64_t{message.header.length} + message.payload.length;
    return post_data(request);
  }
  if (!control_open_) {
    complete(id, Status::flushed);
    return 0;
  }
  if (words_.full()) return ENOMEM;
  words_[words_.end++] = {id, memory_of(message.header)};
  return 0;
}

int TcpLink::post_receives(std::span<const transport::Receive> from, bool control,
                           std::size_t& posted) noexcept {
  Numbered<Receive>& receives = control ? control_receives_ : receives_;
  for (posted = 0; posted != from.size(); ++posted) {
    const transport::Receive& receive = from[posted];
    if (!(control ? control_open_ : data_open_)) {
      complete(receive.id, Status::flushed);
      continue;
    }
    if (receives.full()) return ENOMEM;
    receives[receives.end++] = {receive.id, memory_of(receive.memory)};
  }
  return 0;
}

/// Words first; then what the peer waits for, and what is asked of it.
bool TcpLink::next(transport::OutFrame& frame) noexcept {
  if (next_word_ != words_.end) {
    frame.header.kind = Frame::Kind::control;
    frame.parts[0] = words_[next_word_++].memory;
    frame.header.length = static_cast<std::uint32_t>(frame.parts[0].size());
    frame.mark = kWord;
    return true;
  }
  if (data_open_ && !broken_ && (next_answer(frame) || next_request(frame))) return true;
  if (!std::exchange(asks_machine_, false)) return false;
  frame.header.kind = Frame::Kind::idle;
  return true;
}

bool TcpLink::next_answer(transport::OutFrame& frame) noexcept {
  for (std::optional<Frame>* const answer : {&answer_, &refusal_}) {
    if (!*answer) continue;
    frame.header = **answer;
    frame.mark = kNothing;
    answer->reset();
    return true;
  }
  const auto first = std::ranges::find(answers_, false, &Answer::begun);
  if (first == answers_.end() || first->hold || first->failed) return false;
  first->begun = true;
  frame.header = {.kind = Frame::Kind::data,
                  .flags = first->last ? Frame::kLast : std::uint8_t{0},
                  .length = first->length,
                  .number = first->number};
  frame.parts[0] = first->piece != nullptr ? std::span<const std::byte>(first->piece, first->length)
                                           : std::as_bytes(std::span(&first->value, 1));
  frame.mark = kAnswer;
  return true;
}

bool TcpLink::next_request(transport::OutFrame& frame) noexcept {
  if (next_request_ == requests_.end) return false;
  Request& request = requests_[next_request_];
  if (request.fenced && reads_ != 0) return false;
  Frame& header = frame.header;
  header.kind = request.kind;
  if (request.kind != Frame::Kind::message) {
    header.number = next_request_;
    header.address = request.remote;
    header.key = request.key;
  }
  bool last = true;
  switch (request.kind) {
    case Frame::Kind::write: {
      const auto length = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(request.length - request.begun_bytes, wire::kMaxTcpPayload));
      frame.parts[0] = request.parts[0].subspan(request.begun_bytes, length);
      frame.of_application = true;
      header.address += request.begun_bytes;
      header.length = length;
      request.begun_bytes += length;
      last = request.begun_bytes == request.length;
      if (request.window) header.flags |= Frame::kWindow;
      if (!last) break;
      header.flags |= Frame::kLast;
      if (request.with_immediate) header.flags |= Frame::kImmediate;
      header.value = request.immediate;
      break;
    }
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
  frame.mark = mark_of(next_request_, last);
  if (last) ++next_request_;
  return true;
}

void TcpLink::sent(std::uint64_t mark) noexcept {
  if (mark == kWord) {
    complete(words_[words_.first++].id, Status::success);
    return;
  }
  if (mark == kAnswer) {
    let_go_of(answers_.front());
    answers_.pop_front();
    return;
  }
  const auto number = static_cast<std::uint32_t>(mark >> 2U);
  if ((mark & kKinds) != kEndOfRequest || !requests_.holds(number)) return;
  Request& request = requests_[number];
  request.sent = true;
  if (request.kind != Frame::Kind::message) return;
  request.over = true;
  complete_requests();
}

void TcpLink::unreadable(std::uint64_t mark) noexcept {
  next_word_ = words_.first;  // those that were taken to be sent behind it
  lose(static_cast<std::uint32_t>(mark >> 2U));
}

/// The application has unmapped or truncated the memory of a request.
void TcpLink::lose(std::uint32_t number) noexcept {
  broken_ = true;
  if (!requests_.holds(number)) return;
  requests_[number].over = true;
  requests_[number].status = Status::local_protection;
  complete_requests();
}

/// In the order in which they were posted.
void TcpLink::complete_requests() noexcept {
  for (; !requests_.empty() && requests_[requests_.first].over; ++requests_.first) {
    const Request& request = requests_[requests_.first];
    if (request.signaled || request.status != Status::success) complete(request.id, request.status);
  }
}

// --- what the peer says of them

void TcpLink::on_done(const Frame& frame) noexcept {
  if (broken_ && !requests_.holds(frame.number)) return;
  // Who would end what was not sent could have its memory read when it is another's.
  if (!requests_.holds(frame.number) || !requests_[frame.number].sent)
    return break_protocol("the peer says that a request is over which it was not sent");
  for (std::uint32_t number = requests_.first; number != frame.number + 1; ++number) {
    Request& request = requests_[number];
    if (request.kind == Frame::Kind::write) request.over = true;
  }
  complete_requests();
}

void TcpLink::on_failed(const Frame& frame) noexcept {
  if (broken_ && !requests_.holds(frame.number)) return;
  // The peer refuses a long one by its first frame, while the last ones are still to be sent.
  const std::uint32_t begun = next_request_ - requests_.first;
  if (!requests_.holds(frame.number) ||
      (frame.number - requests_.first >= begun && requests_[frame.number].begun_bytes == 0))
    return break_protocol("the peer refuses a request that it was not sent");
  Request& request = requests_[frame.number];
  broken_ = broken_ || !request.sent;
  request.over = true;
  request.status =
      frame.status == Frame::Status::broken ? Status::remote_operation : Status::remote_access;
  complete_requests();
}

TcpLink::Place TcpLink::place_data(const Frame& frame, std::uint32_t offset,
                                   std::span<std::byte>& memory) noexcept {
  Request* const request = requests_.holds(frame.number) ? &requests_[frame.number] : nullptr;
  const std::uint64_t come = request == nullptr ? 0 : request->begun_bytes + offset;
  const bool asked = request != nullptr && request->sent && !request->over && request->reads;
  if (!asked || frame.length - offset > request->length - come ||
      frame.has(Frame::kLast) != (come + frame.length - offset == request->length)) {
    break_protocol("the peer sends what it was not asked for");
    return Place::later;
  }
  memory = request->parts[0].subspan(come, frame.length - offset);
  return Place::application;
}

void TcpLink::on_data(const Frame& frame) noexcept {
  Request& request = requests_[frame.number];
  request.begun_bytes += frame.length;
  if (!frame.has(Frame::kLast)) return;
  --reads_;
  request.over = true;
  complete_requests();
}

}  // namespace hbmwire::detail
