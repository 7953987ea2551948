// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/probes.hpp"
#include "base/serial.hpp"
#include "endpoint/request_state.hpp"
#include "endpoint/transfer_state.hpp"
#include "transport/lane_datapath.hpp"

namespace hbmwire::detail {

/// The data lane of an endpoint and its send queue: what is posted and not over, in its order,
/// which transfer each request is of, and where a fence stands. Each piece of an operation has its
/// last request signaled, so that every operation has a completion of its own. Requests are
/// counted: counts are places in the queue, and begin anew after 2^32.
class SendQueue {
 public:
  SendQueue(EndpointState& endpoint, std::uint32_t depth);
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  ~SendQueue() = default;

  void set_lane(std::unique_ptr<transport::Lane> lane) noexcept;

  /// The requests that it takes at a time, as many as it was made for; 0: it is held, since its
  /// lane is not connected.
  void set_depth(std::uint32_t depth) noexcept { depth_ = depth; }

  [[nodiscard]] bool is_held() const noexcept { return depth_ == 0; }

  [[nodiscard]] transport::Lane& lane() const noexcept { return *lane_; }

  /// Bytes that the NIC takes with a request.
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept { return inline_bytes_; }

  /// Bytes of one request: what is longer goes in pieces.
  [[nodiscard]] std::uint32_t most_bytes() const noexcept { return most_bytes_; }

  /// Both ends have said what their NICs take.
  void set_most_bytes(std::uint32_t bytes) noexcept { most_bytes_ = bytes; }

  // --- places

  /// Requests that were posted, ever: the next one's place.
  [[nodiscard]] std::uint32_t head() const noexcept { return head_; }

  /// Those of them that are over.
  [[nodiscard]] std::uint32_t over() const noexcept { return over_; }

  /// The same without what the library asked for by itself.
  [[nodiscard]] std::uint32_t asked() const noexcept { return head_ - unasked_; }

  [[nodiscard]] std::uint32_t asked_over() const noexcept { return over_ - unasked_over_; }

  /// Requests that are posted and not over.
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return head_ - over_; }

  /// Requests that it takes now.
  [[nodiscard]] std::uint32_t room() const noexcept { return depth_ - outstanding(); }

  /// Whether all that was posted before `place` is over.
  [[nodiscard]] bool is_over_before(std::uint32_t place) const noexcept {
    return !is_before(over_, place);
  }

  /// Whether it takes so many now; where it is held, its lane is wanted from here on.
  [[nodiscard]] inline bool has_room(std::uint32_t requests) noexcept;

  /// Below this the entries that are under way at a time have different indices (index()).
  [[nodiscard]] std::uint32_t size() const noexcept { return ring_mask_ + 1; }

  /// The index of the next request's entry.
  [[nodiscard]] std::uint32_t index() const noexcept { return head_ & ring_mask_; }

  // --- posting. All return `errno` of ibv_post_send(3).

  /// One message of `operation` at once (send_queue_datapath.hpp). Where the endpoint has failed by
  /// it, a part is under way, and the transfer ends with the endpoint. `transfer`: null where the
  /// library asks by itself.
  int post(const transport::Operation& operation, TransferState* transfer) noexcept;

  /// The same in line. For EndpointState::start() alone.
  [[gnu::always_inline]] inline int post_here(const transport::Operation& operation,
                                              TransferState* transfer) noexcept;
  int post(const transport::Message& message, TransferState* transfer) noexcept;

  /// The first `count` requests of a chain that was aimed, as requests of `opcode`; it may be aimed
  /// anew.
  int post(transport::PreparedChain& chain, std::uint32_t count, transport::Opcode opcode,
           bool fenced, TransferState* transfer) noexcept;

  /// `posted`: of the chain, and stays until it is over.
  int post(transport::PreparedChain& chain, bool fenced, Posted& posted,
           TransferState* transfer) noexcept;

  // --- what is posted

  /// The first one is over.
  void pop(const Posted& posted) noexcept {
    over_ = posted.place + posted.requests;
    // The queue is empty: the next post takes the first entry, which lies in a cache line that a
    // put touches anyway. An endpoint that seldom has more than one request under way needs no
    // other.
    if (++ring_over_ == ring_head_) ring_over_ = ring_head_ = 0;
    if (posted.transfer == nullptr) unasked_over_ += posted.requests;
  }

  /// All that was posted before it is over.
  void pop_before(const Posted& posted) noexcept { over_ = posted.place; }

  /// Nothing completes any more. Calls `use` with each transfer that had something posted.
  template <class Use>
  void forget_all(const Use& use) noexcept {
    for (std::uint32_t i = ring_over_; i != ring_head_; ++i) {
      TransferState* const transfer = std::exchange(at(i).transfer, nullptr);
      if (transfer != nullptr) use(*transfer);
    }
    over_ = head_;
    ring_over_ = ring_head_;
  }

  /// As if an empty queue had posted so many requests that were over, which brings counts
  /// to where they wrap.
  void skip(std::uint32_t requests) noexcept { over_ = head_ += requests; }

  /// The transfer that was posted first and is not over; null: there is none.
  [[nodiscard]] TransferState* oldest() const noexcept;

  // --- the fence

  /// Operations that are started from here on wait for the gets and atomics before them.
  /// `behind_queue`: some of those wait for their turn.
  void fence(bool behind_queue) noexcept {
    fence_next_ = fence_open_ = true;
    fence_place_ = head_;
    fence_queued_ = behind_queue;
  }

  /// Nothing waits any more: all that was before the fence is posted.
  void end_queue() noexcept {
    if (std::exchange(fence_queued_, false)) fence_place_ = head_;
  }

  /// Whether the next request has to wait for them at the NIC. Said once.
  [[nodiscard]] bool take_fence() noexcept { return std::exchange(fence_next_, false); }

  /// The one that took it was refused.
  void return_fence(bool fenced) noexcept { fence_next_ = fenced; }

  /// Whether bytes may be copied as a request is posted: no get before the fence still brings them.
  [[nodiscard]] bool may_be_copied() const noexcept {
    return !fence_queued_ && is_over_before(fence_place_);
  }

  /// Whether a transfer that is not of the data lane waits for the fence; `others_move`: others of
  /// the endpoint do.
  [[nodiscard]] bool fence_holds_back(bool others_move) noexcept {
    // Until devices see what gets before the fence have brought. All else that is moving ends by
    // itself.
    fence_open_ = fence_open_ && others_move;
    return fence_open_;
  }

  [[nodiscard]] bool fence_is_open() const noexcept { return fence_open_; }

 private:
  /// The entry of the `index`th post since the queue was last empty.
  [[nodiscard]] Posted& at(std::uint32_t index) noexcept {
    return index == 0 ? first_ : ring_[index & ring_mask_];
  }

  /// The entry of what is posted next.
  Posted& next_place(TransferState* transfer, std::uint32_t count) noexcept {
    Posted& place = at(ring_head_);
    place.transfer = transfer;
    place.requests = count;
    place.place = head_;
    return place;
  }

  /// The lane has taken the requests for which next_place() stands.
  [[gnu::always_inline]] void push(std::uint32_t count, TransferState* transfer) noexcept {
    HBMWIRE_PROBE2(post, transfer, count);
    head_ += count;
    ++ring_head_;
    if (transfer == nullptr) {
      unasked_ += count;
    } else {
      ++transfer->parts;
    }
  }

  int post_flushed(const transport::Operation& operation, TransferState* transfer) noexcept;
  void fail_midway(Posted& posted, TransferState* transfer, int result) noexcept;

  transport::Poster poster_;  // to `lane_`
  std::uint32_t depth_;       // so many requests it takes
  std::uint32_t head_ = 0;
  std::uint32_t over_ = 0;
  std::uint32_t ring_mask_;
  std::uint32_t ring_head_ = 0;  // so many were put into it
  std::uint32_t ring_over_ = 0;  // so many of them are over
  std::uint32_t unasked_ = 0;
  std::uint32_t unasked_over_ = 0;
  std::uint32_t inline_bytes_ = 0;
  std::uint32_t most_bytes_ = 0;
  std::uint32_t fence_place_ = 0;
  bool fence_next_ = false;
  bool fence_queued_ = false;
  bool fence_open_ = false;  // an engine's copy may still have to wait for what gets have brought
  Posted first_;
  std::unique_ptr<Posted[]> ring_;  // ring_mask_ + 1 of them
  std::unique_ptr<transport::Lane> lane_;
};

}  // namespace hbmwire::detail
