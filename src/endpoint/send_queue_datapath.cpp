// SPDX-License-Identifier: MIT
#include "endpoint/send_queue_datapath.hpp"

#include <array>
#include <bit>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using transport::Tag;
using transport::to_id;

SendQueue::SendQueue(EndpointState& endpoint, std::uint32_t depth)
    : depth_(depth),
      ring_mask_(std::bit_ceil(depth) - 1),
      ring_(std::make_unique<Posted[]>(std::bit_ceil(depth))) {
  first_.endpoint = &endpoint;
  for (std::uint32_t i = 0; i < size(); ++i) ring_[i].endpoint = &endpoint;
}

void SendQueue::set_lane(std::unique_ptr<transport::Lane> lane) noexcept {
  lane_ = std::move(lane);
  poster_ = transport::Poster(*lane_);
  inline_bytes_ = lane_->inline_bytes();
}

TransferState* SendQueue::oldest() const noexcept {
  for (std::uint32_t i = ring_over_; i != ring_head_; ++i) {
    const Posted& posted = i == 0 ? first_ : ring_[i & ring_mask_];
    if (posted.transfer != nullptr) return posted.transfer;
  }
  return nullptr;
}

int SendQueue::post(const transport::Operation& operation, TransferState* transfer) noexcept {
  return post_here(operation, transfer);
}

int SendQueue::post_flushed(const transport::Operation& operation,
                            TransferState* transfer) noexcept {
  Posted& posted = next_place(transfer, 2);  // the WRITE, and the READ behind it
  const std::array<transport::Request, 2> chain{
      {{operation, to_id(&posted, Tag::part), false},
       {first_.endpoint->worker_nic.read_last_of(operation), to_id(&posted, Tag::posted)}}};
  bool begun = false;
  const int result = lane_->post(chain, begun);
  if (result == 0) [[likely]] {
    push(2, transfer);
  } else if (begun) {
    fail_midway(posted, transfer, result);
  }
  return result;
}

int SendQueue::post(transport::PreparedChain& chain, std::uint32_t count, transport::Opcode opcode,
                    bool fenced, TransferState* transfer) noexcept {
  Posted& posted = next_place(transfer, count);
  chain.close(count, opcode, to_id(&posted, Tag::part), to_id(&posted, Tag::posted));
  bool begun = false;
  const int result = transport::post(*lane_, chain, fenced, begun);
  if (result == 0) [[likely]] {
    push(count, transfer);
  } else if (begun) {
    fail_midway(posted, transfer, result);
  }
  return result;
}

int SendQueue::post(const transport::Message& message, TransferState* transfer) noexcept {
  Posted& posted = next_place(transfer, 1);
  const int result = poster_.post(*lane_, message, to_id(&posted, Tag::posted));
  if (result == 0) [[likely]]
    push(1, transfer);
  return result;
}

int SendQueue::post(transport::PreparedChain& chain, bool fenced, Posted& posted,
                    TransferState* transfer) noexcept {
  posted.transfer = transfer;
  posted.place = head_;
  bool begun = false;
  const int result = transport::post(*lane_, chain, fenced, begun);
  // Fills in the ring's entry as well: code that ends requests under way looks there.
  if (result == 0 || begun) next_place(transfer, chain.size());
  if (result == 0) [[likely]] {
    push(chain.size(), transfer);
  } else if (begun) {
    fail_midway(posted, transfer, result);
  }
  return result;
}

/// The lane took some requests of `posted`, but not the last one, whose completion would tell that
/// all are over.
void SendQueue::fail_midway(Posted& posted, TransferState* transfer, int result) noexcept {
  // Counts all requests, though the lane took fewer: the request below completes in place of the
  // last one.
  push(posted.requests, transfer);
  first_.endpoint->fail_post(result, transfer);
  // The lane is in ERROR: it does not carry out this request, and gives it back behind the others.
  // If the queue has no room for it, none comes back, so Ending::advance() destroys the queue pair
  // after a while.
  const transport::Operation nothing;
  static_cast<void>(lane_->post(nothing, to_id(&posted, Tag::posted)));
}

}  // namespace hbmwire::detail
