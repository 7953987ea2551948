// SPDX-License-Identifier: MIT
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using transport::Attention;
using transport::RingFrameKind;
using transport::RingReader;

/// Makes the poller look at this ring, which serves the endpoint's queues again once there is room.
void RingLink::wait_for_peer() noexcept {
  if (!polled_) return;
  waits_ = true;
  endpoint_.worker->neighbours.rings.heat(*this);
}

bool RingLink::has_room(std::uint32_t bytes) noexcept {
  if (writer_->has_room(bytes)) [[likely]]
    return true;
  wait_for_peer();
  return false;
}

bool RingLink::is_empty() noexcept {
  if (!on_ || writer_->is_empty()) return true;
  wait_for_peer();
  return false;
}

int RingLink::send(const transport::RingWriter::Frame& frame) noexcept {
  const int result = writer_->write(frame);
  const Attention attention = writer_->attention();
  if (attention == Attention::looks) [[likely]]
    return result;
  neighbour_->ring_bell();
  if (attention == Attention::sleeps) endpoint_.watch.wake_peer();
  return result;
}

void RingLink::tell_of_word() noexcept {
  // A sleeping peer is woken by the socket.
  if (!on_ || writer_->attention() == Attention::sleeps || !writer_->has_room(0)) return;
  send({.kind = RingFrameKind::word});
}

void RingLink::on_frame(const RingReader::Frame& frame) noexcept {
  if (frame.kind == RingFrameKind::word) {
    if (endpoint_.link != nullptr) endpoint_.link->progress();
    return;
  }
  // An endpoint that is ending takes no frames, just as a lane in ERROR takes none.
  if (endpoint_.phase != EndpointPhase::ready) return;
  if (frame.kind == RingFrameKind::message) {
    endpoint_.messages.inbox().on_passing(frame.bytes);
  } else {
    endpoint_.messages.inbox().on_passing_immediate(frame.value, frame.written);
  }
}

std::size_t RingLink::take(bool polls) noexcept {
  constexpr std::size_t kMost = 16;  // other endpoints have frames, too
  constexpr int kMostPolls = 64;     // completions that come later need not be waited for
  std::size_t taken = 0;
  while (taken < kMost && reader_->has_frame()) {
    // Bytes that NICs brought before the frame was sent must be handled before it.
    if (polls)
      endpoint_.worker->handle_completions(endpoint_.sends.lane().completions(), kMostPolls);
    const auto frame = reader_->peek();
    if (!frame) break;
    on_frame(*frame);
    reader_->take();
    ++taken;
  }
  if (taken != 0) reader_->tell_taken();
  if (endpoint_.phase != EndpointPhase::ready) {
    waits_ = false;
    endpoint_.look_soon();
    return taken;
  }
  if (reader_->is_broken() || writer_->is_broken()) [[unlikely]] {
    endpoint_.break_protocol("the peer's ring is malformed");
    return taken + 1;
  }
  if (waits_) [[unlikely]] {
    waits_ = false;
    if (endpoint_.has_waiting()) endpoint_.post_waiting();
  }
  return taken;
}

void RingLink::take_all() noexcept {
  // The peer writes no more, so this ends. The bound is for a peer that writes nevertheless.
  constexpr std::size_t kMost = transport::SharedRingFile::kCells;
  if (!on_) return;
  for (std::size_t taken = 0; taken < kMost && reader_->has_frame() && !reader_->is_broken();)
    taken += take(/*polls=*/false);
}

}  // namespace hbmwire::detail
