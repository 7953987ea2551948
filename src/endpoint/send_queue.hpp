// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/serial.hpp"
#include "endpoint/request_state.hpp"
#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {

/// The data lane's send queue as its endpoint keeps it: what is posted and not over, in its order,
/// and which transfer it is of. Each piece of an operation has its last request signaled. Requests
/// are counted: counts are places in the queue, and begin anew after 2^32.
struct SendQueue {
  SendQueue(EndpointState& endpoint, std::uint32_t depth_of)
      : depth(depth_of), ring(std::bit_ceil(depth_of)), ring_mask(std::bit_ceil(depth_of) - 1) {
    slots = ring.data();
    for (Posted& posted : ring) posted.endpoint = &endpoint;
  }

  /// Requests that are posted and not over.
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return head - over; }

  /// Requests that it takes now.
  [[nodiscard]] std::uint32_t room() const noexcept { return depth - outstanding(); }

  /// Whether all that was posted before `place` is over.
  [[nodiscard]] bool gave_back_before(std::uint32_t place) const noexcept {
    return !is_before(over, place);
  }

  /// Calls `look` with each, in their order.
  template <class Look>
  void for_each_posted(const Look& look) const {
    for (std::uint32_t i = ring_over; i != ring_head; ++i) look(slots[i & ring_mask]);
  }

  /// The transfer that was posted first and is not over; null: there is none.
  [[nodiscard]] TransferState* oldest_posted() const noexcept {
    for (std::uint32_t i = ring_over; i != ring_head; ++i) {
      if (slots[i & ring_mask].transfer != nullptr) return slots[i & ring_mask].transfer;
    }
    return nullptr;
  }

  /// The place of what is posted next.
  Posted& next_place(TransferState* transfer, std::uint32_t count) noexcept {
    Posted& place = slots[ring_head & ring_mask];
    place.transfer = transfer;
    place.requests = count;
    place.place = head;
    return place;
  }

  /// ibv_post_send(3) has taken what next_place() stands for.
  void push(std::uint32_t count, const TransferState* transfer) noexcept {
    head += count;
    ++ring_head;
    if (transfer == nullptr) unasked += count;
  }

  /// The first one is over.
  void pop(const Posted& posted) noexcept {
    over = posted.place + posted.requests;
    ++ring_over;
    if (posted.transfer == nullptr) unasked_over += posted.requests;
  }

  /// Nothing completes any more.
  void forget_all() noexcept {
    over = head;
    ring_over = ring_head;
  }

  std::uint32_t depth;     // so many requests it takes
  std::uint32_t head = 0;  // so many requests were posted: the next one's place
  std::uint32_t over = 0;  // so many of them are over
  std::vector<Posted> ring;
  Posted* slots = nullptr;  // of `ring`
  std::uint32_t ring_mask;
  std::uint32_t ring_head = 0;  // so many were put into it
  std::uint32_t ring_over = 0;  // so many of them are over
  // Requests that no transfer asked for: what the library says and asks by itself.
  std::uint32_t unasked = 0;
  std::uint32_t unasked_over = 0;
};

}  // namespace hbmwire::detail
