// SPDX-License-Identifier: MIT
#include <array>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

using transport::pointer_of;
using transport::Tag;

void dispatch(const ibv_wc& completion) noexcept {
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
      MessageBuffer& buffer = *pointer_of<MessageBuffer>(id);
      buffer.endpoint->on_control(buffer, completion);
      return;
    }
    case Tag::answered: {
      MessageBuffer& buffer = *pointer_of<MessageBuffer>(id);
      buffer.endpoint->on_answered(buffer, completion);
      return;
    }
  }
}

}  // namespace

std::size_t WorkerState::progress() noexcept {
  // As many at a time as fit into some cache lines.
  constexpr int kBatch = 16;
  std::array<ibv_wc, kBatch> completions;
  std::size_t handled = 0;
  for (const WorkerNic& nic : nics) {
    for (const auto& queue : nic.completions) {
      const int count = ibv_poll_cq(queue->get(), kBatch, completions.data());
      for (int i = 0; i < count; ++i) dispatch(completions[static_cast<std::size_t>(i)]);
      if (count > 0) handled += static_cast<std::size_t>(count);
    }
  }
  // The clock is looked at once in so many calls, more often where nothing happens.
  constexpr unsigned kIdle = 64;
  constexpr unsigned kBusy = 1024;
  ++calls;
  if (calls % (handled == 0 ? kIdle : kBusy) == 0) [[unlikely]]
    handled += tick();
  return handled;
}

}  // namespace hbmwire::detail
