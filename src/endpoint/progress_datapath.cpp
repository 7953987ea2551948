// SPDX-License-Identifier: MIT
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

using transport::pointer_of;
using transport::Tag;

/// Hands a completion to its owner. `full()` makes the complete record, which not every owner
/// needs.
template <class Full>
[[gnu::always_inline]] inline void dispatch(std::uint64_t id, bool good,
                                            const Full& full) noexcept {
  switch (transport::tag_of(id)) {
    case Tag::posted: {
      Posted& posted = *pointer_of<Posted>(id);
      if (good) [[likely]] {
        posted.endpoint->on_posted(posted);
      } else {
        posted.endpoint->on_failed(posted, full(), /*last=*/true);
      }
      return;
    }
    case Tag::part: {
      Posted& posted = *pointer_of<Posted>(id);
      posted.endpoint->on_failed(posted, full(), /*last=*/false);
      return;
    }
    case Tag::received: {
      ReceiveBuffer& buffer = *pointer_of<ReceiveBuffer>(id);
      buffer.pool->on_completed(buffer, full());
      return;
    }
    case Tag::control: {
      ControlBuffer& buffer = *pointer_of<ControlBuffer>(id);
      buffer.lane->on_sent(buffer, full());
      return;
    }
    case Tag::rail: {
      RailPiece& piece = *pointer_of<RailPiece>(id);
      piece.rail->mover->on_completion(piece, full());
      return;
    }
    case Tag::moved: {
      MoverJob& job = *pointer_of<MoverJob>(id);
      job.mover->on_moved(job, full(), /*last=*/true);
      return;
    }
    case Tag::moving: {
      MoverJob& job = *pointer_of<MoverJob>(id);
      job.mover->on_moved(job, full(), /*last=*/false);
      return;
    }
  }
}

int poll_once(transport::CompletionQueue& queue) noexcept {
  return transport::poll(
      queue, [](std::uint64_t id, bool good, const auto& full) { dispatch(id, good, full); });
}

}  // namespace

void WorkerState::handle_completions(transport::CompletionQueue& queue, int most_polls) noexcept {
  for (int polls = 0; polls < most_polls && poll_once(queue) > 0; ++polls) ++event_count;
}

std::size_t WorkerState::progress() noexcept {
  if (made.is_inherited()) [[unlikely]]
    return 0;
  std::size_t handled = 0;
  // By index, since handling a completion may add a queue.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t q = 0; q < polled.size(); ++q) {
    const int count = poll_once(*polled[q]);
    if (count < 0) [[unlikely]] {
      lose(*polled[q]);
      continue;
    }
    handled += static_cast<std::size_t>(count);
  }
  if (!neighbours.rings.empty()) handled += neighbours.rings.progress();
  // The clock is read once in this many calls, more often when nothing happens.
  constexpr unsigned kIdle = 64;
  constexpr unsigned kBusy = 1024;
  static_assert((kIdle & (kIdle - 1)) == 0 && (kBusy & (kBusy - 1)) == 0, "masks below");
  event_count += handled;
  if (staged != 0) [[unlikely]]
    handled += advance_staging();
  ++calls;
  if ((calls & ((handled == 0 ? kIdle : kBusy) - 1)) == 0) [[unlikely]]
    handled += tick();
  return handled;
}

}  // namespace hbmwire::detail
