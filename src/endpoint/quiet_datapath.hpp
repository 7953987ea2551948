// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>

#include "endpoint/endpoint_state.hpp"

/// Puts and gets of which no completion tells (docs/adr/0028-quiet-requests.md). Where many are
/// under way some are quiet, and a completion of one that was posted behind them says that they are
/// over: a reliable connection completes in order. When nothing is posted behind them any more,
/// whoever drives the worker posts a message of nothing.
namespace hbmwire::detail {

/// So many quiet ones at most, for one that tells of them.
inline constexpr std::uint32_t kMostQuiet = 15;

/// A share of what is under way when most is: what is over is seen late by so much.
inline constexpr std::uint32_t kQuietShare = 4;

inline std::uint32_t SendQueue::next_quiet_run() noexcept {
  busiest = std::max(busiest, outstanding());
  const std::uint32_t share = busiest / kQuietShare;
  if (share == 0) return 0;
  if (loud_left != 0) {
    --loud_left;
    return 0;
  }
  if (!in_quiet_list) {
    in_quiet_list = true;
    next_quiet = worker->quiet_list;
    worker->quiet_list = slots->endpoint;
    quiet_head = head;
  }
  // One request is left to tell of them.
  const std::uint32_t left = room();
  return std::min({share, kMostQuiet, left == 0 ? 0 : left - 1});
}

[[gnu::noinline]] inline TransferState* SendQueue::take_turn() noexcept {
  std::uint32_t quiet = 0;
  if (signaling != 0) {
    told_until = head;
    quiet = next_quiet_run();
  }
  if (quiet == 0) {
    be_loud();
  } else {
    go_on_as(ibv_send_flags{}, quiet);
  }
  return newest;
}

[[gnu::always_inline]] inline TransferState* SendQueue::count_quiet() noexcept {
  if (turn_at == head) return take_turn();
  return newest;
}

inline void SendQueue::end_until(std::uint32_t place) noexcept {
  constexpr unsigned kSettled = 30;  // after so many requests, as a power of two
  if (unheld != 0) [[unlikely]]
    drop_unheld(place);
  const std::uint32_t before = std::exchange(over, place);
  if (before >> kSettled != place >> kSettled) [[unlikely]]
    settle_direct();
}

}  // namespace hbmwire::detail
