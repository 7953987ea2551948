// SPDX-License-Identifier: MIT
#include "endpoint/tcp_link.hpp"

#include <arpa/inet.h>
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

}  // namespace

template <class T>
TcpLink::Numbered<T>::Numbered(std::uint32_t at_least) : entries(std::bit_ceil(at_least)) {}

TcpLink::TcpLink(TcpPort& port, EndpointState& endpoint, const Depths& depths)
    : port_(port),
      endpoint_(endpoint),
      requests_(depths.data_requests),
      words_(depths.control),
      receives_(depths.data_receives),
      control_receives_(depths.control) {
  for (ibv_qp* const lane : {&data_, &control_}) {
    lane->context = &port.context();
    lane->qp_context = this;
  }
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
  auto lane = std::make_unique<transport::Lane>();
  lane->nic = port_.nic.nic.state().shared_from_this();
  lane->completions = &port_.completions();
  lane->queue = control ? &control_ : &data_;
  lane->carrier = this;
  lane->local.queue_pair = control ? 1 : 0;  // EndpointOffer::over_tcp()
  lane->local.max_message_bytes = kMaxMessage;
  lane->local.incarnation = incarnation();
  return lane;
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

void TcpLink::complete(std::uint64_t id, ibv_wc_opcode opcode, ibv_wc_status status,
                       std::uint32_t bytes) noexcept {
  ibv_wc completion{};
  completion.wr_id = id;
  completion.opcode = opcode;
  completion.status = status;
  completion.byte_len = bytes;
  port_.complete(*this, completion);
}

// --- its end

void TcpLink::break_off(ibv_qp& lane) noexcept {
  if (&lane == &control_) {
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
    const bool over = request.over && request.status == IBV_WC_SUCCESS;
    complete(request.id, request.opcode, over ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
  }
  next_request_ = requests_.end;
  for (; !receives_.empty(); ++receives_.first)
    complete(receives_[receives_.first].id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
}

void TcpLink::flush_control() noexcept {
  if (!std::exchange(control_open_, false)) return;
  for (; !words_.empty(); ++words_.first)
    complete(words_[words_.first].id, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
  next_word_ = words_.end;
  for (; !control_receives_.empty(); ++control_receives_.first)
    complete(control_receives_[control_receives_.first].id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
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

TcpLink::Request TcpLink::request_of(const ibv_send_wr& from) const noexcept {
  Request request;
  request.id = from.wr_id;
  request.signaled = (from.send_flags & IBV_SEND_SIGNALED) != 0;
  request.fenced = (from.send_flags & IBV_SEND_FENCE) != 0;
  for (int i = 0; i < from.num_sge; ++i) {
    const ibv_sge& element = from.sg_list[i];
    request.parts.at(static_cast<std::size_t>(i)) = {std::bit_cast<std::byte*>(element.addr),
                                                     element.length};
    request.length += element.length;
  }
  if (from.opcode != IBV_WR_SEND) {
    request.remote = from.wr.rdma.remote_addr;
    request.key = from.wr.rdma.rkey;  // a place in our own table, or the peer's receive
  }
  switch (from.opcode) {
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      request.with_immediate = true;
      request.immediate = ntohl(from.imm_data);
      [[fallthrough]];
    case IBV_WR_RDMA_WRITE:
      request.kind = Frame::Kind::write;
      request.opcode = IBV_WC_RDMA_WRITE;
      break;
    case IBV_WR_RDMA_READ:
      // Of nothing it is over when all before it is, as a WRITE of nothing.
      request.kind = request.length == 0 ? Frame::Kind::write : Frame::Kind::read;
      request.opcode = IBV_WC_RDMA_READ;
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_ATOMIC_CMP_AND_SWP: {
      const bool adds = from.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
      request.kind = adds ? Frame::Kind::fetch_add : Frame::Kind::compare_swap;
      request.opcode = adds ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP;
      request.remote = from.wr.atomic.remote_addr;
      request.key = from.wr.atomic.rkey;
      request.operands = {from.wr.atomic.compare_add, from.wr.atomic.swap};
      break;
    }
    default:
      break;
  }
  // A request's transfer says whether its receiver has told the key, in a message.
  const auto tag = transport::tag_of(from.wr_id);
  if (tag == transport::Tag::posted || tag == transport::Tag::part) {
    const auto* const transfer = transport::pointer_of<Posted>(from.wr_id)->transfer;
    request.window = transfer != nullptr && transfer->protocol == Protocol::rendezvous_write &&
                     request.kind == Frame::Kind::write;
  }
  const bool names_memory = request.kind != Frame::Kind::message && request.length != 0;
  // None is 0, and the peer refuses it.
  if (names_memory && !request.window)
    request.key = request.key < tokens_.size() ? tokens_[request.key] : 0;
  return request;
}

int TcpLink::post_data(const ibv_send_wr& from) noexcept {
  if (!data_open_) {
    complete(from.wr_id, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
    return 0;
  }
  if (requests_.full()) return ENOMEM;
  requests_[requests_.end] = request_of(from);
  ++requests_.end;
  return 0;
}

int TcpLink::post_control(const ibv_send_wr& from) noexcept {
  if (!control_open_) {
    complete(from.wr_id, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
    return 0;
  }
  if (words_.full()) return ENOMEM;
  const ibv_sge& element = *from.sg_list;
  words_[words_.end++] = {from.wr_id, {std::bit_cast<std::byte*>(element.addr), element.length}};
  return 0;
}

int TcpLink::post_send(ibv_qp& lane, ibv_send_wr* first, ibv_send_wr** bad) noexcept {
  int result = 0;
  for (ibv_send_wr* request = first; request != nullptr && result == 0; request = request->next) {
    result = &lane == &control_ ? post_control(*request) : post_data(*request);
    if (result != 0) *bad = request;
  }
  send();
  return result;
}

int TcpLink::post_receive(ibv_qp& lane, ibv_recv_wr* first, ibv_recv_wr** bad) noexcept {
  const bool control = &lane == &control_;
  Numbered<Receive>& receives = control ? control_receives_ : receives_;
  for (ibv_recv_wr* receive = first; receive != nullptr; receive = receive->next) {
    if (!(control ? control_open_ : data_open_)) {
      complete(receive->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
      continue;
    }
    if (receives.full()) {
      *bad = receive;
      return ENOMEM;
    }
    const ibv_sge& element = *receive->sg_list;
    receives[receives.end++] = {receive->wr_id,
                                {std::bit_cast<std::byte*>(element.addr), element.length}};
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
    complete(words_[words_.first++].id, IBV_WC_SEND, IBV_WC_SUCCESS);
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
  requests_[number].status = IBV_WC_LOC_PROT_ERR;
  complete_requests();
}

/// In the order in which they were posted.
void TcpLink::complete_requests() noexcept {
  for (; !requests_.empty() && requests_[requests_.first].over; ++requests_.first) {
    const Request& request = requests_[requests_.first];
    if (request.signaled || request.status != IBV_WC_SUCCESS)
      complete(request.id, request.opcode, request.status);
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
      frame.status == Frame::Status::broken ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR;
  complete_requests();
}

TcpLink::Place TcpLink::place_data(const Frame& frame, std::uint32_t offset,
                                   std::span<std::byte>& memory) noexcept {
  Request* const request = requests_.holds(frame.number) ? &requests_[frame.number] : nullptr;
  const std::uint64_t come = request == nullptr ? 0 : request->begun_bytes + offset;
  const bool asked = request != nullptr && request->sent && !request->over &&
                     request->opcode != IBV_WC_RDMA_WRITE && request->opcode != IBV_WC_SEND;
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
