// SPDX-License-Identifier: MIT
#include "endpoint/ring_poller.hpp"

#include <algorithm>

#include "endpoint/ring_link.hpp"

namespace hbmwire::detail {

using transport::Attention;

void RingPoller::add(RingLink& link, SharedHoldFile& holds) {
  by_bell_.resize(kSharedHolds);
  all_.reserve(all_.size() + 1);
  hot_.reserve(all_.size() + 1);
  bells_.reserve(bells_.size() + 1);
  holds_ = &holds;
  by_bell_[link.bell()] = &link;
  const auto [word, bit] = SharedHoldFile::bell_of(link.bell());
  const auto known = std::ranges::find(bells_, word, &Bells::word);
  if (known == bells_.end()) {
    bells_.push_back({word, bit});
  } else {
    known->mask |= bit;
  }
  all_.push_back(&link);
  // The ring's bell is heard only from here on, so a frame may have come unheard.
  link.set_attention(sleeps_ ? Attention::sleeps : Attention::bell);
  if (link.has_frame()) heat(link);
}

void RingPoller::remove(RingLink& link) noexcept {
  std::erase(all_, &link);
  std::erase(hot_, &link);
  // The ring's peer may have given up the bell before, and another ring may have it by now.
  if (by_bell_[link.bell()] != &link) return;
  by_bell_[link.bell()] = nullptr;
  const auto [word, bit] = SharedHoldFile::bell_of(link.bell());
  const auto known = std::ranges::find(bells_, word, &Bells::word);
  known->mask &= ~bit;
  if (known->mask == 0) bells_.erase(known);
}

void RingPoller::heat_those_with_frames() noexcept {
  for (RingLink* const link : all_) {
    if (!link->is_hot && link->has_frame()) heat(*link);
  }
}

void RingPoller::begin_sleep() noexcept {
  sleeps_ = !all_.empty();
  for (RingLink* const link : all_) link->set_attention(Attention::sleeps);
  // A peer that wrote before that, and has yet to ring its bell, wakes no thread.
  heat_those_with_frames();
}

void RingPoller::wake_up() noexcept {
  sleeps_ = false;
  for (RingLink* const link : all_)
    link->set_attention(link->is_hot ? Attention::looks : Attention::bell);
  // A ring that is no longer hot may have got a frame since its last look.
  heat_those_with_frames();
}

bool RingPoller::waits() const noexcept {
  return std::ranges::any_of(hot_, [](const RingLink* link) { return link->waits(); });
}

}  // namespace hbmwire::detail
