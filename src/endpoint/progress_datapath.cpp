// SPDX-License-Identifier: MIT
#include <array>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

using transport::pointer_of;
using transport::Tag;

inline void dispatch(const ibv_wc& completion) noexcept {
  const std::uint64_t id = completion.wr_id;
  switch (transport::tag_of(id)) {
    case Tag::posted: {
      Posted& posted = *pointer_of<Posted>(id);
      if (completion.status == IBV_WC_SUCCESS) [[likely]] {
        posted.endpoint->on_posted(posted);
      } else {
        posted.endpoint->on_failed(posted, completion, true);
      }
      return;
    }
    case Tag::part: {
      Posted& posted = *pointer_of<Posted>(id);
      posted.endpoint->on_failed(posted, completion, false);
      return;
    }
    case Tag::message: {
      MessageBuffer& buffer = *pointer_of<MessageBuffer>(id);
      buffer.endpoint->on_message(buffer, completion);
      return;
    }
    case Tag::control: {
      ControlBuffer& buffer = *pointer_of<ControlBuffer>(id);
      if (buffer.sends) {
        buffer.lane->on_sent(buffer, completion);
      } else {
        buffer.lane->on_received(buffer, completion);
      }
      return;
    }
    case Tag::rail: {
      RailPiece& piece = *pointer_of<RailPiece>(id);
      piece.rail->mover->on_completion(piece, completion);
      return;
    }
    case Tag::moved: {
      MoverJob& job = *pointer_of<MoverJob>(id);
      job.mover->on_moved(job, completion, true);
      return;
    }
    case Tag::moving: {
      MoverJob& job = *pointer_of<MoverJob>(id);
      job.mover->on_moved(job, completion, false);
      return;
    }
  }
}

}  // namespace

std::size_t WorkerState::progress() noexcept {
  // As many at a time as fit into some cache lines.
  constexpr int kBatch = 16;
  std::array<ibv_wc, kBatch> completions;
  if (made.is_inherited()) [[unlikely]]
    return 0;
  std::size_t handled = 0;
  // By index: what a completion leads to may add a queue.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t q = 0; q < polled.size(); ++q) {
    const int count = ibv_poll_cq(polled[q]->get(), kBatch, completions.data());
    if (count < 0) [[unlikely]] {
      lose(*polled[q]);
      continue;
    }
    for (int i = 0; i < count; ++i) dispatch(completions[static_cast<std::size_t>(i)]);
    handled += static_cast<std::size_t>(count);
  }
  // The clock is looked at once in so many calls, more often where nothing happens.
  constexpr unsigned kIdle = 64;
  constexpr unsigned kBusy = 1024;
  static_assert((kIdle & (kIdle - 1)) == 0 && (kBusy & (kBusy - 1)) == 0, "masks below");
  event_count += handled;
  if (staged != 0) [[unlikely]]
    handled += go_on_staging();
  ++calls;
  if ((calls & ((handled == 0 ? kIdle : kBusy) - 1)) == 0) [[unlikely]]
    handled += tick();
  return handled;
}

}  // namespace hbmwire::detail
