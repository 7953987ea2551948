// SPDX-License-Identifier: MIT
#include "transport/tcp/completion_queue.hpp"

#include <bit>
#include <cassert>
#include <utility>

#include "transport/tcp/link.hpp"

namespace hbmwire::transport {

void TcpCompletionQueue::add(TcpLink& link, std::size_t completions, bool asks) {
  links_.reserve(links_.size() + 1);  // so that nothing throws after the first change
  // Forgotten completions keep their places until poll() reaches them.
  const auto waiting = static_cast<std::size_t>(end_ - first_);
  const std::size_t needed = waiting + most_ + completions;
  if (needed > ready_.size()) {
    std::vector<Ready> larger(std::bit_ceil(needed));
    for (std::uint64_t at = first_; at != end_; ++at)
      larger[at % larger.size()] = ready_[at % ready_.size()];
    ready_ = std::move(larger);
  }
  most_ += completions;
  if (asks) links_.push_back(&link);
}

void TcpCompletionQueue::forget(const TcpLink& link, std::size_t completions) noexcept {
  most_ -= completions;
  for (std::uint64_t at = first_; at != end_; ++at) {
    Ready& ready = ready_[at % ready_.size()];
    if (ready.link == &link) ready.link = nullptr;
  }
  std::erase(links_, &link);
}

void TcpCompletionQueue::complete(const TcpLink& link, const Completion& completion) noexcept {
  assert(end_ - first_ < ready_.size());
  ready_[end_++ % ready_.size()] = {&link, completion};
}

int TcpCompletionQueue::poll(std::span<Completion> into) noexcept {
  // Ready completions are returned without a system call. After kMostUnasked such polls the sockets
  // are read all the same: an endpoint that only sends must notice its peers' requests, too.
  if (first_ == end_ || ++told_unasked_ == kMostUnasked) {
    told_unasked_ = 0;
    // By index: an iterator would not survive a link that is added meanwhile.
    // NOLINTNEXTLINE(modernize-loop-convert)
    for (std::size_t i = 0; i < links_.size(); ++i) links_[i]->progress();
  }
  std::size_t count = 0;
  while (count < into.size() && first_ != end_) {
    const Ready& ready = ready_[first_++ % ready_.size()];
    if (ready.link != nullptr) into[count++] = ready.what;
  }
  return static_cast<int>(count);
}

Result<void> TcpCompletionQueue::arm() {
  for (TcpLink* const link : links_) link->wake_by_socket();
  return {};
}

}  // namespace hbmwire::transport
