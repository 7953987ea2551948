// SPDX-License-Identifier: MIT
#include "transport/tcp/link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transport/tcp/lane.hpp"

namespace hbmwire::transport {

TcpLink::TcpLink(TcpCompletionQueue& queue, TcpUser& user, const Depths& depths)
    : state_(*this, queue, user),
      requester_(state_, depths.data_requests),
      responder_(state_, depths.data_receives),
      words_(depths.control),
      control_receives_(depths.control),
      carries_data_(depths.data_requests != 0) {
  state_.data_open = carries_data_;
  completions_ = requester_.depth() + words_.entries.size() + responder_.receives().entries.size() +
                 control_receives_.entries.size();
  queue.add(*this, completions_, carries_data_);
}

TcpLink::~TcpLink() {
  responder_.end();
  state_.queue.forget(*this, std::exchange(completions_, 0));
  state_.user.stop_watching();
}

std::unique_ptr<Lane> TcpLink::make_lane(bool control) {
  return std::make_unique<TcpLane>(*this, state_.queue, control);
}

Result<void> TcpLink::start(Fd socket) {
  // Removes the handshake's time limit. It would end a connection to a stopped process whose buffer
  // is full.
  const unsigned none = 0;
  const std::string& peer = state_.user.peer();
  if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none) != 0)
    return tl::make_unexpected(system_error(Stage::connect, "setsockopt", errno, peer));
  stream_.emplace(std::move(socket), static_cast<FrameUser&>(*this), peer,
                  carries_data_ ? Stream::kBuffer : Stream::kSmallBuffer);
  HBMWIRE_TRY(state_.user.watch(stream_->fd()));
  send();
  return {};
}

// --- progress, by the worker

void TcpLink::progress() noexcept {
  if (!stream_) return;
  responder_.advance();
  if (state_.fault) return;
  if (const auto received = stream_->receive(); !received) return state_.fail(received.error());
  if (responder_.is_idle()) [[likely]] {
    send();
  } else {
    serve();
  }
}

void TcpLink::serve() noexcept {
  bool begun = true;
  while (begun && !state_.fault) {
    begun = responder_.begin_answers();
    send();
    // The kernel has no room, or an engine is still copying: either will wake a thread that sleeps.
    if (responder_.has_answers()) break;
  }
}

void TcpLink::send() noexcept {
  // receive() reports the failure of a send, because the peer may have sent the reason.
  if (!stream_ || state_.fault) return;
  static_cast<void>(stream_->send());
  // A thread that sleeps meanwhile is woken when there is room.
  if (stream_->wants_out() || !carries_data_) [[unlikely]]
    wake_by_socket();
}

void TcpLink::wake_by_socket() noexcept {
  if (stream_) state_.user.watch_room(stream_->wants_out());
}

void TcpLink::hang_up() noexcept {
  if (stream_) ::shutdown(stream_->fd(), SHUT_WR);
}

void TcpLink::ask_machine() noexcept {
  asks_machine_ = true;
  send();
}

bool TcpLink::is_silent(Clock::time_point now, std::chrono::nanoseconds bound) noexcept {
  return stream_ && !state_.fault && stream_->is_silent(now, bound);
}

// --- the end of the link

void TcpLink::break_off(bool control) noexcept {
  if (control) {
    flush_control();
    shut();
    return;
  }
  if (!std::exchange(state_.data_open, false)) return;
  if (stream_) stream_->cut_short();
  next_word_ = words_.first;  // cut_short() has forgotten these words: they are taken once more
  responder_.break_off();
  requester_.flush();
  responder_.flush();
}

void TcpLink::flush_control() noexcept {
  if (!std::exchange(state_.control_open, false)) return;
  for (; !words_.empty(); ++words_.first) state_.flush(words_[words_.first].id);
  next_word_ = words_.end;
  for (; !control_receives_.empty(); ++control_receives_.first)
    state_.flush(control_receives_[control_receives_.first].id);
}

void TcpLink::shut() noexcept {
  if (!stream_) return;
  // Closing a socket with unread bytes sends a reset, after which the peer may lose the last
  // frames.
  static_cast<void>(stream_->receive());
  state_.user.stop_watching();
  stream_->cut_short();
  stream_->close();
  if (!state_.fault) {
    state_.fault =
        make_error(Errc::cancelled, Stage::complete, "the endpoint was closed", state_.user.peer());
  }
}

void TcpLink::cut() noexcept {
  state_.data_open = state_.control_open = false;
  shut();
  responder_.end();
  requester_.forget();
  words_.first = words_.end;
  next_word_ = words_.end;
  control_receives_.first = control_receives_.end;
  state_.queue.forget(*this, std::exchange(completions_, 0));
}

// --- used by its lanes

int TcpLink::post(const Message& message, std::uint64_t id, bool control) noexcept {
  if (!control) return requester_.post(message, id);
  if (!state_.control_open) {
    state_.flush(id);
    return 0;
  }
  if (words_.full()) return ENOMEM;
  words_.push({id, memory_of(message.header)});
  return 0;
}

int TcpLink::post_receives(std::span<const Receive> receives, bool control,
                           std::size_t& posted) noexcept {
  Numbered<Receive>& queue = control ? control_receives_ : responder_.receives();
  for (posted = 0; posted != receives.size(); ++posted) {
    if (!(control ? state_.control_open : state_.data_open)) {
      state_.flush(receives[posted].id);
      continue;
    }
    if (queue.full()) return ENOMEM;
    queue.push(receives[posted]);
  }
  // A control message was waiting for a receive. Its bytes have left the socket, which does not
  // report them again.
  if (control && !carries_data_ && std::exchange(starved_, false)) progress();
  return 0;
}

// --- outgoing frames

/// Control messages go first, then answers to the peer, then this end's own requests.
bool TcpLink::next(OutFrame& frame) noexcept {
  if (next_word_ != words_.end) {
    frame.header.kind = Frame::Kind::control;
    frame.parts[0] = words_[next_word_++].bytes;
    frame.header.length = static_cast<std::uint32_t>(frame.parts[0].size());
    frame.mark = mark_of(TcpMark::word);
    return true;
  }
  const bool moves = state_.data_open && !state_.broken;
  if (moves && (responder_.next(frame) || requester_.next(frame))) return true;
  // The last choice is an empty frame, which makes the peer's machine answer.
  if (!std::exchange(asks_machine_, false)) return false;
  frame.header.kind = Frame::Kind::idle;
  return true;
}

void TcpLink::sent(std::uint64_t mark) noexcept {
  switch (kind_of(mark)) {
    case TcpMark::word:
      return state_.complete({.id = words_[words_.first++].id});
    case TcpMark::answer:
      return responder_.sent();
    case TcpMark::end_of_request:
      return requester_.sent(number_of(mark));
    case TcpMark::nothing:
      return;
  }
}

void TcpLink::unreadable(std::uint64_t mark) noexcept {
  next_word_ = words_.first;  // the stream has forgotten these words: they are taken once more
  requester_.lose(number_of(mark));
}

// --- incoming frames

FrameUser::Place TcpLink::place(const Frame& frame, std::uint32_t offset,
                                std::span<std::byte>& memory) noexcept {
  if (state_.fault) return Place::later;
  if (frame.kind == Frame::Kind::control) {
    if (!state_.control_open) return Place::drop;
    const Place at = place_receive(state_, control_receives_, frame, offset, memory);
    starved_ = at == Place::later;
    return at;
  }
  if (!state_.data_open || state_.broken) return Place::drop;
  if (frame.kind == Frame::Kind::data) return requester_.place(frame, offset, memory);
  return responder_.place(frame, offset, memory);
}

void TcpLink::taken(const Frame& /*frame*/, std::uint32_t /*offset*/,
                    std::uint32_t /*bytes*/) noexcept {
  responder_.taken();
}

void TcpLink::unwritable(const Frame& frame) noexcept {
  if (frame.kind == Frame::Kind::data) return requester_.lose(frame.number);
  responder_.unwritable(frame);
}

void TcpLink::arrived(const Frame& frame) noexcept {
  if (state_.fault) return;
  if (frame.kind == Frame::Kind::control) {
    if (!state_.control_open) return;
    const Receive& receive = control_receives_[control_receives_.first++];
    return state_.complete({.id = receive.id, .bytes = frame.length});
  }
  const bool is_end = frame.kind == Frame::Kind::done || frame.kind == Frame::Kind::failed;
  if (!state_.data_open || (state_.broken && !is_end)) return;
  switch (frame.kind) {
    case Frame::Kind::data:
      return requester_.on_data(frame);
    case Frame::Kind::done:
      return requester_.on_done(frame);
    case Frame::Kind::failed:
      return requester_.on_failed(frame);
    case Frame::Kind::idle:
      return;
    default:
      return responder_.arrived(frame);
  }
}

}  // namespace hbmwire::transport
