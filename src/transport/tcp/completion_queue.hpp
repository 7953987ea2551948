// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/lane.hpp"

namespace hbmwire::transport {

class TcpLink;

/// The completions of a worker's TcpLinks. Polling it goes on with those that carry data.
class TcpCompletionQueue final : public CompletionQueue {
 public:
  TcpCompletionQueue() noexcept : CompletionQueue(false) {}

  TcpCompletionQueue(const TcpCompletionQueue&) = delete;
  TcpCompletionQueue& operator=(const TcpCompletionQueue&) = delete;
  ~TcpCompletionQueue() override = default;

  /// `completions`: at most so many of it wait at a time to be polled. `asks`: its socket is asked
  /// with each poll, not only when it is ready. May throw std::bad_alloc.
  void add(TcpLink& link, std::size_t completions, bool asks);

  /// Completions that were not polled are forgotten.
  void forget(const TcpLink& link, std::size_t completions) noexcept;
  void complete(const TcpLink& link, const Completion& completion) noexcept;

  int poll(std::span<Completion> into) noexcept override;

  /// There are no events: what makes the links' sockets readable is looked at each time.
  Result<void> arm() override;

  void lose() noexcept override {}

 private:
  struct Ready {
    const TcpLink* link = nullptr;  // null: forgotten
    Completion what;
  };

  static constexpr unsigned kMostUnasked = 8;

  std::vector<TcpLink*> links_;  // that are asked with each poll
  // Those in [first_, end_) of a ring, which is as large as all links may need at a time.
  std::vector<Ready> ready_;
  std::size_t most_ = 0;  // of the links
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  unsigned told_unasked_ = 0;  // polls since the sockets were asked
};

}  // namespace hbmwire::transport
