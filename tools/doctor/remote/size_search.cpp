// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/size_search.hpp"

#include <algorithm>
#include <array>

namespace hbmwire::tools::doctor {
namespace {

// The minimum of IPv6, the usual MTU of Ethernet, the minimum for RoCE's path MTU of 4096 bytes,
// and a value below 9000.
constexpr std::array<std::uint32_t, 4> kUsualSizes{1280, 1500, 4200, 8192};
// More at once would overflow the receive buffer of a slow server.
constexpr std::uint32_t kSizesAtOnce = 4;

}  // namespace

SizeSearch::SizeSearch(std::uint32_t smallest, std::uint32_t largest)
    : smallest_(smallest),
      largest_(std::max(smallest, largest)),
      lost_(largest_ + 1),
      round_{smallest} {}

unsigned SizeSearch::tries() const noexcept {
  constexpr unsigned kAtTheEnds = 3;  // the smallest and largest size decide the verdict
  constexpr unsigned kInBetween = 2;
  return rounds_ < 2 ? kAtTheEnds : kInBetween;
}

void SizeSearch::arrived(std::uint32_t size) {
  if (size >= smallest_ && size <= largest_) arrived_ = std::max(arrived_, size);
}

bool SizeSearch::is_round_answered() const noexcept {
  return round_.empty() || arrived_ >= round_.back();
}

void SizeSearch::end_round() {
  for (const std::uint32_t size : round_) {
    if (size > arrived_) lost_ = std::min(lost_, size);
  }
  // A packet arrived after it was given up.
  if (lost_ <= arrived_) lost_ = arrived_ + 1;
  ++rounds_;
  choose();
}

void SizeSearch::choose() {
  round_.clear();
  if (arrived_ == 0 || arrived_ + 1 >= lost_) return;  // nothing arrives, or the limit is found
  if (rounds_ == 1) {
    round_.push_back(largest_);
    return;
  }
  if (rounds_ == 2) {
    for (const std::uint32_t size : kUsualSizes) {
      if (size > arrived_ && size < lost_) round_.push_back(size);
    }
    if (!round_.empty()) return;
  }
  const std::uint32_t step = std::max(1U, (lost_ - arrived_) / kSizesAtOnce);
  for (std::uint32_t i = 0; i < kSizesAtOnce; ++i) {
    const std::uint32_t size = arrived_ + (i == 0 ? 1 : i * step);
    if (size < lost_ && (round_.empty() || size > round_.back())) round_.push_back(size);
  }
}

}  // namespace hbmwire::tools::doctor
