// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "endpoint/endpoint_state.hpp"
#include "endpoint/send_queue_datapath.hpp"
#include "mover/nic_movers.hpp"

namespace hbmwire::detail {

bool PieceMover::advance(TransferState& transfer) noexcept {
  EndpointState& endpoint = *transfer.endpoint;
  const transport::Operation& whole = transfer.operation;
  Pieces& pieces = *transfer.as<Pieces>();
  // Without a queue pair nothing can have been posted, so an empty request has nothing to wait for.
  if (endpoint.sends.is_held() && whole.length == 0) {
    if (!whole.with_immediate) return true;
    if (endpoint.movers.ring.is_on()) return endpoint.messages.tell_by_ring(whole.immediate, 0);
  }
  while (endpoint.sends.has_room(SendQueue::kRequestsOfPost)) {
    transport::Operation piece = whole;
    piece.local += pieces.begun_bytes;
    piece.remote += pieces.begun_bytes;
    piece.length -= pieces.begun_bytes;
    const bool last = piece.length <= endpoint.sends.most_bytes();
    if (last && whole.with_immediate && !endpoint.messages.has_credit()) return false;
    if (!last) {
      piece.length = endpoint.sends.most_bytes();
      piece.with_immediate = false;
      piece.flushed = false;
    }
    if (const int result = endpoint.sends.post(piece, &transfer); result != 0) {
      endpoint.fail_post(result, &transfer);
      return false;
    }
    if (last) {
      if (whole.with_immediate) endpoint.messages.spend_credit();
      return true;
    }
    pieces.begun_bytes += piece.length;
  }
  return false;
}

/// If no request was posted, the transfer is over.
bool PieceMover::finish(TransferState& transfer) noexcept {
  if (transfer.parts == 0) transfer.endpoint->go_on(transfer);
  return true;
}

bool ListMover::advance(TransferState& transfer) noexcept {
  EndpointState& endpoint = *transfer.endpoint;
  Prepared& list = *transfer.as<Prepared>();
  RequestState& request = *list.request;
  const auto count = static_cast<std::uint32_t>(request.chunks.size());
  while (list.next < count) {
    transport::PreparedChain& chunk = *request.chunks[list.next];
    const bool takes_credit = list.next == request.immediate_chunk;
    if (!endpoint.sends.has_room(chunk.size()) || (takes_credit && !endpoint.messages.has_credit()))
      return false;
    // The fence was asked for before this run of the list, and holds only for this run.
    const bool fenced = std::exchange(transfer.operation.fenced, false);
    const int result = endpoint.sends.post(chunk, fenced, request.posted[list.next], &transfer);
    if (result != 0) [[unlikely]] {
      // Does nothing if the endpoint has failed already.
      endpoint.fail_post(result, &transfer);
      return false;
    }
    if (takes_credit) endpoint.messages.spend_credit();
    ++list.next;
  }
  return true;
}

bool ListMover::flush_next(TransferState& transfer) noexcept {
  Prepared& list = *transfer.as<Prepared>();
  const RequestState& request = *list.request;
  if (list.flushed >= request.to_flush.size()) return false;
  transfer.operation = request.to_flush[list.flushed++];
  transfer.endpoint->worker_nic.mover->start(transfer, /*remote_key=*/0);
  return true;
}

bool SendMover::advance(TransferState& transfer) noexcept {
  return transfer.endpoint->messages.post_send(transfer);
}

/// A message that went by the ring is over.
bool SendMover::finish(TransferState& transfer) noexcept {
  if (transfer.parts == 0) transfer.endpoint->go_on(transfer);
  return true;
}

}  // namespace hbmwire::detail
