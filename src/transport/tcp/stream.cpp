// SPDX-License-Identifier: MIT
#include "transport/tcp/stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/guarded.hpp"
#include "base/guarded_copy.hpp"

namespace hbmwire::transport {

namespace {

using wire::TcpFrame;

// Bytes of one receive(), so that a peer that never pauses does not keep other peers waiting.
constexpr std::size_t kMostAtOnce = 4U << 20U;
// Bytes of one sendmsg(2): more than a socket's buffer takes would be prepared in vain.
constexpr std::size_t kEnoughAtOnce = 1U << 20U;

iovec to_iovec(std::span<const std::byte> bytes) noexcept {
  return {.iov_base = const_cast<std::byte*>(bytes.data()),  // NOLINT: sendmsg(2) reads it
          .iov_len = bytes.size()};
}

/// Appends `parts`, without their first `skip` bytes.
template <class Parts>
std::size_t append(std::span<iovec> out, std::size_t count, const Parts& parts, std::size_t skip) {
  for (std::span<const std::byte> part : parts) {
    const std::size_t off = std::min(skip, part.size());
    skip -= off;
    part = part.subspan(off);
    if (!part.empty()) out[count++] = to_iovec(part);
  }
  return count;
}

Error peer_error(const char* call, int number, std::string_view peer) {
  Error error = system_error(Stage::complete, call, number, peer, Hint::peer_gone);
  error.code = Errc::peer_failed;
  return error;
}

}  // namespace

Stream::Stream(Fd socket, FrameUser& user, std::string peer, std::size_t buffer_bytes)
    : socket_(std::move(socket)), user_(user), peer_(std::move(peer)), buffer_(buffer_bytes) {}

Result<void> Stream::state() const {
  if (error_) return tl::make_unexpected(*error_);
  return {};
}

Stream::Step Stream::fail(Error why) noexcept {
  if (!error_) error_ = why;
  return Step::over;
}

// --- sending

void Stream::fill_batch() noexcept {
  std::size_t bytes = 0;
  for (std::uint64_t at = batch_sent_; at != batch_; ++at)
    bytes += ring_[at % kBatch].frame.header.length;
  while (batch_ - batch_sent_ < kBatch && bytes < kEnoughAtOnce) {
    Begun& begun = ring_[batch_ % kBatch];
    begun.frame = OutFrame{};
    if (!user_.next(begun.frame)) return;
    wire::encode(begun.frame.header, begun.bytes.data());
    bytes += begun.frame.header.length;
    ++batch_;
  }
}

Result<void> Stream::send() noexcept {
  bool alone = false;  // try the first frame alone: is its memory gone?
  while (!error_ && !send_error_) {
    if (!alone) fill_batch();
    const std::uint64_t until = alone ? batch_sent_ + 1 : batch_;
    bool gathers = true;
    std::array<iovec, 1 + 3 * kBatch> pieces;  // `rest_`; a header and two parts of each frame
    std::size_t count =
        append(pieces, 0, std::array{std::span<const std::byte>(rest_)}, rest_sent_);
    std::size_t skip = sent_of_first_;
    for (std::uint64_t at = batch_sent_; at != until; ++at, skip = 0) {
      const Begun& begun = ring_[at % kBatch];
      gathers = gathers && !begun.frame.of_application;
      const std::array<std::span<const std::byte>, 3> parts{begun.bytes, begun.frame.parts[0],
                                                            begun.frame.parts[1]};
      count = append(pieces, count, parts, skip);
    }
    if (count == 0) break;
    std::size_t whole = 0;
    for (std::size_t i = 0; i < count; ++i) whole += pieces[i].iov_len;
    const ssize_t sent = hand_over(std::span(pieces).first(count), whole, gathers);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EFAULT && !alone) {
      alone = true;
      continue;
    }
    if (sent < 0 && errno == EFAULT) {
      lose_first();
      alone = false;
      continue;
    }
    alone = false;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      send_error_ = peer_error("sendmsg", errno, peer_);
      break;
    }
    take_sent(static_cast<std::size_t>(sent));
    // The kernel has no room for the rest. Or it cannot read the rest, which the next send() finds
    // out.
    if (static_cast<std::size_t>(sent) < whole) break;
  }
  return state();
}

/// Only the rest of the frame could follow its first part, and that is lost. So the peer sees just
/// the end of the connection.
void Stream::break_off(const Error& why) noexcept {
  send_error_ = why;
  rest_.clear();
  rest_sent_ = 0;
  static_cast<void>(::shutdown(socket_.get(), SHUT_WR));
}

void Stream::lose_first() noexcept {
  const std::uint64_t mark = ring_[batch_sent_ % kBatch].frame.mark;
  if (sent_of_first_ != 0) break_off(memory_gone(Stage::complete, peer_));
  // The later frames are forgotten, too: unreadable() says so to the user.
  batch_sent_ = batch_;
  sent_of_first_ = 0;
  user_.unreadable(mark);
}

/// Gathers small frames in one buffer: the kernel takes longer to process a list of pieces than the
/// CPU to copy them.
ssize_t Stream::hand_over(std::span<iovec> pieces, std::size_t whole, bool gathers) noexcept {
  constexpr std::size_t kGathered = 512;
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (gathers && whole <= kGathered) {
    std::array<std::byte, kGathered> bytes;
    std::size_t at = 0;
    for (const iovec& piece : pieces) {
      std::memcpy(bytes.data() + at, piece.iov_base, piece.iov_len);
      at += piece.iov_len;
    }
    return ::send(socket_.get(), bytes.data(), whole, kFlags);
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return ::sendmsg(socket_.get(), &message, kFlags);
}

void Stream::take_sent(std::size_t bytes) noexcept {
  const std::size_t of_rest = std::min(bytes, rest_.size() - rest_sent_);
  rest_sent_ += of_rest;
  bytes -= of_rest;
  if (rest_sent_ == rest_.size()) {
    rest_.clear();
    rest_sent_ = 0;
  }
  while (bytes != 0) {
    const Begun& first = ring_[batch_sent_ % kBatch];
    const std::size_t left = wire::kTcpFrameBytes + first.frame.header.length - sent_of_first_;
    if (bytes < left) {
      sent_of_first_ += bytes;
      return;
    }
    bytes -= left;
    sent_of_first_ = 0;
    ++batch_sent_;
    user_.sent(first.frame.mark);
  }
}

/// Copies the rest of a frame, since its memory may be reused from now on. If there is no memory
/// for the copy, or the application's memory is gone, the frame ends here and nothing can follow
/// it.
void Stream::keep_rest(std::span<const std::byte> part) noexcept {
  if (send_error_) return;
  const auto kept = guarded(Stage::complete, [&]() -> Result<void> {
    const std::size_t before = rest_.size();
    rest_.resize(before + part.size());
    if (copy_from_application(std::span(rest_).subspan(before), part.data())) return {};
    return tl::make_unexpected(memory_gone(Stage::complete, peer_));
  });
  if (!kept) break_off(kept.error());
}

void Stream::cut_short() noexcept {
  const bool begun = batch_sent_ != batch_ && sent_of_first_ != 0;
  const std::uint64_t mark = begun ? ring_[batch_sent_ % kBatch].frame.mark : 0;
  if (begun) {
    const Begun& first = ring_[batch_sent_ % kBatch];
    std::size_t skip = sent_of_first_;
    for (std::span<const std::byte> part :
         {std::span<const std::byte>(first.bytes), first.frame.parts[0], first.frame.parts[1]}) {
      const std::size_t off = std::min(skip, part.size());
      skip -= off;
      keep_rest(part.subspan(off));
    }
  }
  batch_sent_ = batch_;
  sent_of_first_ = 0;
  if (begun) user_.sent(mark);
}

// --- receiving

Result<std::size_t> Stream::receive() noexcept {
  std::size_t arrived = 0;
  got_ = 0;
  drained_ = false;
  Step step = error_ ? Step::over : Step::on;
  while (step == Step::on) {
    if (!frame_) {
      step = take_header();
    } else if (offset_ != frame_->length) {
      step = take_payload();
    } else {
      const TcpFrame frame = *frame_;
      frame_.reset();
      offset_ = 0;
      ++arrived;
      user_.arrived(frame);
    }
    if (step != Step::starved) continue;
    // All was read. Only now the failure to send counts, because the peer may have sent the reason.
    if (send_error_) fail(*send_error_);
    break;
  }
  if (arrived == 0 && error_) return tl::make_unexpected(*error_);
  return arrived;
}

/// Reads into `memory`, and then into the buffer, which must be empty.
Stream::Step Stream::fill(std::span<std::byte> memory, std::size_t& got) noexcept {
  got = 0;
  if (got_ >= kMostAtOnce) return Step::later;
  // The last read got all that there was. Another system call would only confirm it, and the next
  // receive() makes that call anyway. But if nothing can be sent any more, all that has come must
  // be read.
  if (drained_ && !send_error_) return Step::later;
  for (;;) {
    const ssize_t count = take_in(memory);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return Step::starved;
    if (count < 0 && errno == EFAULT && !memory.empty()) return Step::unwritable;
    if (count < 0) return fail(peer_error("recvmsg", errno, peer_));
    if (count == 0) {
      return fail(make_error(Errc::peer_failed, Stage::complete, "the peer's process has ended",
                             peer_, Hint::peer_gone));
    }
    drained_ = static_cast<std::size_t>(count) < memory.size() + buffer_.size();
    got = std::min(static_cast<std::size_t>(count), memory.size());
    got_ += static_cast<std::size_t>(count);
    read_ = 0;
    filled_ = static_cast<std::size_t>(count) - got;
    return Step::on;
  }
}

ssize_t Stream::take_in(std::span<std::byte> memory) noexcept {
  if (memory.empty()) return ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  std::array<iovec, 2> pieces{{{memory.data(), memory.size()}, {buffer_.data(), buffer_.size()}}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
}

Stream::Step Stream::take_header() noexcept {
  std::array<std::byte, wire::kTcpFrameBytes> header;
  while (filled_ - read_ < header.size()) {
    const std::size_t have = filled_ - read_;
    std::memcpy(header.data(), buffer_.data() + read_, have);
    std::size_t got = 0;
    const std::size_t lack = header.size() - have;
    const Step step = have == 0 ? fill({}, got) : fill(std::span(header).subspan(have), got);
    if (step != Step::on) return step;
    if (have == 0) continue;
    if (got == lack) return begin_frame(header);
    // Rare: a header in three pieces. Its bytes so far move to the front of the buffer.
    std::memcpy(buffer_.data(), header.data(), have + got);
    read_ = 0;
    filled_ = have + got;
  }
  std::memcpy(header.data(), buffer_.data() + read_, header.size());
  read_ += header.size();
  return begin_frame(header);
}

Stream::Step Stream::begin_frame(std::span<const std::byte, wire::kTcpFrameBytes> header) noexcept {
  frame_ = wire::decode_tcp_frame(header);
  offset_ = 0;
  if (frame_) return Step::on;
  return fail(make_error(Errc::protocol, Stage::complete, "the peer's frame is malformed", peer_,
                         Hint::other_version));
}

Stream::Step Stream::take_payload() noexcept {
  std::span<std::byte> memory;
  const FrameUser::Place place = user_.place(*frame_, offset_, memory);
  switch (place) {
    case FrameUser::Place::later:
      return Step::later;
    case FrameUser::Place::here:
    case FrameUser::Place::application: {
      const std::uint32_t from = offset_;
      const Step step =
          take_some(memory.first(std::min<std::size_t>(memory.size(), frame_->length - offset_)),
                    place == FrameUser::Place::application);
      user_.taken(*frame_, from, offset_ - from);
      if (step != Step::unwritable) return step;
      user_.unwritable(*frame_);
      return Step::on;
    }
    case FrameUser::Place::drop:
      break;
  }
  if (read_ == filled_) {
    std::size_t got = 0;
    if (const Step step = fill({}, got); step != Step::on) return step;
  }
  const std::size_t dropped = std::min<std::size_t>(filled_ - read_, frame_->length - offset_);
  read_ += dropped;
  offset_ += static_cast<std::uint32_t>(dropped);
  return Step::on;
}

Stream::Step Stream::take_some(std::span<std::byte> memory, bool of_application) noexcept {
  Step step = Step::on;
  std::size_t got = 0;
  if (read_ == filled_)
    step = fill(memory.size() >= kDirect ? memory : std::span<std::byte>(), got);
  // If no bytes went to `memory` directly, they are in the buffer.
  if (step == Step::on && got == 0) {
    got = std::min(filled_ - read_, memory.size());
    const std::span<const std::byte> bytes = std::span(buffer_).subspan(read_, got);
    if (!of_application) {
      std::memcpy(memory.data(), bytes.data(), got);
    } else if (!copy_to_application(memory.data(), bytes)) {
      return Step::unwritable;
    }
    read_ += got;
  }
  offset_ += static_cast<std::uint32_t>(got);
  return step;
}

// --- the peer's machine

bool Stream::is_silent(Clock::time_point now, std::chrono::nanoseconds bound) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  // If the peer has no room, nothing is in flight, and the kernel sends probes less and less often.
  const bool on_its_way = ::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                          info.tcpi_unacked != 0;
  if (!on_its_way) {
    unanswered_since_.reset();
    return false;
  }
  // The data in flight may have been sent a moment ago. So the time counts from the first look
  // after the latest acknowledgement.
  const auto answered = now - std::chrono::milliseconds(info.tcpi_last_ack_recv);
  if (!unanswered_since_ || answered > *unanswered_since_) unanswered_since_ = now;
  return now - *unanswered_since_ > bound;
}

}  // namespace hbmwire::transport
