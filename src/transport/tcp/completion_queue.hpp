// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/lane.hpp"

namespace hbmwire::transport {

class TcpLink;

/// The completions of a worker's TcpLinks. Polling it also makes progress on the links that carry
/// data.
class TcpCompletionQueue final : public CompletionQueue {
 public:
  TcpCompletionQueue() noexcept : CompletionQueue(/*by_nic=*/false) {}

  TcpCompletionQueue(const TcpCompletionQueue&) = delete;
  TcpCompletionQueue& operator=(const TcpCompletionQueue&) = delete;
  ~TcpCompletionQueue() override = default;

  /// `completions`: the most completions of this link that can wait to be polled. `asks`: whether
  /// each poll reads its socket, not only when the socket is ready. May throw std::bad_alloc.
  void add(TcpLink& link, std::size_t completions, bool asks);

  /// Forgets the link's completions that were not polled.
  void forget(const TcpLink& link, std::size_t completions) noexcept;
  void complete(const TcpLink& link, const Completion& completion) noexcept;

  int poll(std::span<Completion> into) noexcept override;

  /// There are no events to request. Lets each link's socket wake the worker, also when there is
  /// room to send.
  Result<void> arm() override;

  void lose() noexcept override {}

 private:
  /// A completion that waits to be polled.
  struct Ready {
    const TcpLink* link = nullptr;  // null: forgotten
    Completion what;
  };

  static constexpr unsigned kMostUnasked = 8;

  std::vector<TcpLink*> links_;  // the links that each poll asks
  // A ring, large enough for all links; those in [first_, end_) are ready.
  std::vector<Ready> ready_;
  std::size_t most_ = 0;  // places reserved by all links
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  unsigned told_unasked_ = 0;  // polls since the sockets were read
};

}  // namespace hbmwire::transport
