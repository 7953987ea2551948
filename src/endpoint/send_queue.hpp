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

/// The data lane of an endpoint and its send queue: the posted requests that are not over, in their
/// order, the transfer of each, and the place of a fence. The last request of each piece of an
/// operation is signaled, so that every operation has a completion. Requests are counted: a count
/// is a place in the queue, and wraps around after 2^32.
class SendQueue {
 public:
  /// Most requests that one post makes, for which every post asks room: a WRITE, and the READ
  /// behind it that makes it visible.
  static constexpr std::uint32_t kRequestsOfPost = 2;

  SendQueue(EndpointState& endpoint, std::uint32_t depth);
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  ~SendQueue() = default;

  void set_lane(std::unique_ptr<transport::Lane> lane) noexcept;

  /// Sets how many requests it takes at a time: at most as many as it was made for. 0: the queue is
  /// held, since its lane is not connected yet.
  void set_depth(std::uint32_t depth) noexcept { depth_ = depth; }

  [[nodiscard]] bool is_held() const noexcept { return depth_ == 0; }

  [[nodiscard]] transport::Lane& lane() const noexcept { return *lane_; }

  /// Bytes that fit into a request (inline data).
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept { return inline_bytes_; }

  /// Most bytes of one request; longer operations go in pieces.
  [[nodiscard]] std::uint32_t most_bytes() const noexcept { return most_bytes_; }

  /// Sets most_bytes(), once both ends have told each other how much their NICs take.
  void set_most_bytes(std::uint32_t bytes) noexcept { most_bytes_ = bytes; }

  // --- places

  /// Number of requests ever posted: the place of the next one.
  [[nodiscard]] std::uint32_t head() const noexcept { return head_; }

  /// Number of requests that are over.
  [[nodiscard]] std::uint32_t over() const noexcept { return over_; }

  /// head() and over() without the library's own requests.
  [[nodiscard]] std::uint32_t asked() const noexcept { return head_ - unasked_; }

  [[nodiscard]] std::uint32_t asked_over() const noexcept { return over_ - unasked_over_; }

  /// Requests that are posted and not over.
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return head_ - over_; }

  /// Requests that it takes now.
  [[nodiscard]] std::uint32_t room() const noexcept { return depth_ - outstanding(); }

  /// Whether all requests posted before `place` are over.
  [[nodiscard]] bool is_over_before(std::uint32_t place) const noexcept {
    return !is_before(over_, place);
  }

  /// Whether it takes this many requests now. If the queue is held, this asks for its lane to be
  /// connected.
  [[nodiscard]] inline bool has_room(std::uint32_t requests) noexcept;

  /// Number of entries of the ring. While fewer requests are under way, index() is no other
  /// request's.
  [[nodiscard]] std::uint32_t size() const noexcept { return ring_mask_ + 1; }

  /// The index of the next request's entry.
  [[nodiscard]] std::uint32_t index() const noexcept { return head_ & ring_mask_; }

  // --- posting. All functions return 0, or the errno of ibv_post_send(3).

  /// Posts `operation` as one message (send_queue_datapath.hpp). On an error, the lane may have
  /// taken a part: `transfer->parts` counts it then, the endpoint has failed, and the transfer ends
  /// with it. `transfer`: null for a request of the library's own.
  int post(const transport::Operation& operation, TransferState* transfer) noexcept;

  /// post() of an operation in line, for EndpointState::start() alone.
  [[gnu::always_inline]] inline int post_here(const transport::Operation& operation,
                                              TransferState* transfer) noexcept;

  /// Posts one SEND. On an error nothing is under way.
  int post(const transport::Message& message, TransferState* transfer) noexcept;

  /// Posts the first `count` requests of a chain, whose addresses PreparedChain::aim() has set, as
  /// requests of `opcode`. They may be set anew afterwards.
  int post(transport::PreparedChain& chain, std::uint32_t count, transport::Opcode opcode,
           bool fenced, TransferState* transfer) noexcept;

  /// Posts all of a chain whose requests name `posted`, which must stay until they are over.
  int post(transport::PreparedChain& chain, bool fenced, Posted& posted,
           TransferState* transfer) noexcept;

  // --- posted requests

  /// `posted`, the oldest entry, is over.
  void pop(const Posted& posted) noexcept {
    over_ = posted.place + posted.requests;
    // If the queue is empty now, the next post takes the first entry, which lies in a cache line
    // that a put touches anyway. An endpoint that seldom has more than one request under way needs
    // no other entry.
    if (++ring_over_ == ring_head_) ring_over_ = ring_head_ = 0;
    if (posted.transfer == nullptr) unasked_over_ += posted.requests;
  }

  /// All requests posted before `posted` are over.
  void pop_before(const Posted& posted) noexcept { over_ = posted.place; }

  /// Forgets all requests, since none will complete any more. Calls `use` with each transfer that
  /// had something posted.
  template <class Use>
  void forget_all(const Use& use) noexcept {
    for (std::uint32_t i = ring_over_; i != ring_head_; ++i) {
      TransferState* const transfer = std::exchange(at(i).transfer, nullptr);
      if (transfer != nullptr) use(*transfer);
    }
    over_ = head_;
    ring_over_ = ring_head_;
  }

  /// As if an empty queue had posted this many requests that are over. For tests that bring counts
  /// to where they wrap.
  void skip(std::uint32_t requests) noexcept { over_ = head_ += requests; }

  /// The transfer that was posted first and is not over; null if there is none.
  [[nodiscard]] TransferState* oldest() const noexcept;

  // --- the fence

  /// Makes operations that are started from here on wait for the gets and atomics before them.
  /// `behind_queue`: some of those still wait in the endpoint's queue.
  void fence(bool behind_queue) noexcept {
    fence_next_ = fence_open_ = true;
    fence_place_ = head_;
    fence_queued_ = behind_queue;
  }

  /// The endpoint's queue is empty: everything before the fence is posted.
  void end_queue() noexcept {
    if (std::exchange(fence_queued_, false)) fence_place_ = head_;
  }

  /// Whether the next request must carry the fence for the NIC. True once for each fence.
  [[nodiscard]] bool take_fence() noexcept { return std::exchange(fence_next_, false); }

  /// The request that took the fence was refused: gives it back.
  void return_fence(bool fenced) noexcept { fence_next_ = fenced; }

  /// Whether a request may hold a copy of its bytes (inline data): no get before the fence can
  /// still change them.
  [[nodiscard]] bool may_be_copied() const noexcept {
    return !fence_queued_ && is_over_before(fence_place_);
  }

  /// Whether a transfer outside the data lane must wait for the fence. If not, the fence is no
  /// longer open. `others_move`: movers of the endpoint have other transfers under way.
  [[nodiscard]] bool fence_holds_back(bool others_move) noexcept {
    // Movers make the bytes of gets before the fence visible to devices. Those of later transfers
    // are waited for, too, which only takes time: they end by themselves.
    fence_open_ = fence_open_ && others_move;
    return fence_open_;
  }

  [[nodiscard]] bool fence_is_open() const noexcept { return fence_open_; }

 private:
  /// The entry of the post number `index` since the queue was last empty. The first one has a place
  /// of its own: pop() says why.
  [[nodiscard]] Posted& at(std::uint32_t index) noexcept {
    return index == 0 ? first_ : ring_[index & ring_mask_];
  }

  /// Fills in the entry of the next post.
  Posted& next_place(TransferState* transfer, std::uint32_t count) noexcept {
    Posted& place = at(ring_head_);
    place.transfer = transfer;
    place.requests = count;
    place.place = head_;
    return place;
  }

  /// Counts requests that the lane has taken; next_place() has filled in their entry.
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

  /// Posts a put that becomes visible: the READ behind the WRITE is over when all its bytes are
  /// visible (docs/adr/0021).
  int post_flushed(const transport::Operation& operation, TransferState* transfer) noexcept;
  void fail_midway(Posted& posted, TransferState* transfer, int result) noexcept;

  transport::Poster poster_;  // posts to `lane_`
  std::uint32_t depth_;       // how many requests it takes
  std::uint32_t head_ = 0;
  std::uint32_t over_ = 0;
  std::uint32_t ring_mask_;
  std::uint32_t ring_head_ = 0;  // entries ever put into the ring
  std::uint32_t ring_over_ = 0;  // how many of these are over
  std::uint32_t unasked_ = 0;
  std::uint32_t unasked_over_ = 0;
  std::uint32_t inline_bytes_ = 0;
  std::uint32_t most_bytes_ = 0;
  std::uint32_t fence_place_ = 0;  // the fence waits for requests before this place
  bool fence_next_ = false;        // the next request carries the fence
  bool fence_queued_ = false;      // requests before the fence still wait in the endpoint's queue
  bool fence_open_ = false;        // an engine's copy may still have to wait for the bytes of gets
  Posted first_;
  std::unique_ptr<Posted[]> ring_;  // ring_mask_ + 1 entries
  std::unique_ptr<transport::Lane> lane_;
};

}  // namespace hbmwire::detail
