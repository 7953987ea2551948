// SPDX-License-Identifier: MIT
#include <bit>

#include "endpoint/ring_link.hpp"
#include "endpoint/ring_poller.hpp"

namespace hbmwire::detail {

using transport::Attention;

std::size_t RingPoller::progress() noexcept {
  // After so many looks without a frame a ring is no longer hot.
  constexpr std::uint32_t kIdleLooks = 16384;
  std::size_t handled = 0;
  for (std::size_t i = 0; i < hot_.size(); ++i) {
    RingLink& link = *hot_[i];
    const std::size_t taken = link.take(/*polls=*/true);
    handled += taken;
    if (taken != 0) {
      link.idle_looks = 0;
    } else if (++link.idle_looks > kIdleLooks && !link.waits()) [[unlikely]] {
      cool(i);
    }
  }
  if (hot_.size() != all_.size()) handled += answer_bells();
  if (sleeps_ && handled != 0) [[unlikely]]
    wake_up();
  return handled;
}

void RingPoller::heat(RingLink& link) noexcept {
  link.idle_looks = 0;
  if (link.is_hot) return;
  link.is_hot = true;
  hot_.push_back(&link);  // add() has made room for all
  if (!sleeps_) link.set_attention(Attention::looks);
}

/// Relies on the bell from here on, unless a frame has come by now.
void RingPoller::cool(std::size_t index) noexcept {
  RingLink& link = *hot_[index];
  link.idle_looks = 0;
  if (sleeps_) return;
  link.set_attention(Attention::bell);
  if (link.has_frame()) return link.set_attention(Attention::looks);
  link.is_hot = false;
  hot_[index] = hot_.back();
  hot_.pop_back();
}

std::size_t RingPoller::answer_bells() noexcept {
  std::size_t handled = 0;
  for (const Bells& bells : bells_) {
    std::atomic<std::uint64_t>& word = holds_->bells[bells.word];
    std::uint64_t rung = word.load(std::memory_order_relaxed) & bells.mask;
    if (rung == 0) [[likely]]
      continue;
    // The bells are cleared before the look, so that a later frame rings again.
    word.fetch_and(~rung);
    for (; rung != 0; rung &= rung - 1) {
      RingLink* const link = by_bell_[bells.word * SharedHoldFile::kWordBells +
                                      static_cast<std::size_t>(std::countr_zero(rung))];
      if (link == nullptr) continue;
      heat(*link);
      handled += link->take(/*polls=*/true);
    }
  }
  return handled;
}

}  // namespace hbmwire::detail
