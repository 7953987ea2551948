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
  const std::size_t word = link.bell() / 64;
  const std::uint64_t bit = std::uint64_t{1} << link.bell() % 64;
  const auto known = std::ranges::find(bells_, word, &Bells::word);
  if (known == bells_.end()) {
    bells_.push_back({word, bit});
  } else {
    known->mask |= bit;
  }
  all_.push_back(&link);
  heat(link);
}

void RingPoller::remove(RingLink& link) noexcept {
  std::erase(all_, &link);
  std::erase(hot_, &link);
  // Its peer may have given the bell up before, and another one have it by now.
  if (by_bell_[link.bell()] != &link) return;
  by_bell_[link.bell()] = nullptr;
  const auto known = std::ranges::find(bells_, link.bell() / 64, &Bells::word);
  known->mask &= ~(std::uint64_t{1} << link.bell() % 64);
  if (known->mask == 0) bells_.erase(known);
}

void RingPoller::begin_sleep() noexcept {
  sleeps_ = !all_.empty();
  for (RingLink* const link : all_) link->set_attention(Attention::sleeps);
  // Who wrote before that, and has still to ring, wakes nobody.
  for (RingLink* const link : all_) {
    if (!link->is_hot && link->has_frame()) heat(*link);
  }
}

void RingPoller::wake_up() noexcept {
  sleeps_ = false;
  for (RingLink* const link : all_)
    link->set_attention(link->is_hot ? Attention::looks : Attention::bell);
  // What was written between two looks at a ring that is not looked at any more.
  for (RingLink* const link : all_) {
    if (!link->is_hot && link->has_frame()) heat(*link);
  }
}

bool RingPoller::waits() const noexcept {
  return std::ranges::any_of(hot_, [](const RingLink* link) { return link->waits(); });
}

}  // namespace hbmwire::detail
