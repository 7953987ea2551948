// SPDX-License-Identifier: MIT
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using Kind = TransferState::Kind;
using Then = TransferState::Then;

Result<Transfer> EndpointState::post(RequestState& request) {
  if (phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(not_ready());
  if (request.under_way()) [[unlikely]] {
    return tl::make_unexpected(
        make_error(Errc::busy, Stage::post, "the prepared transfer is still under way", peer));
  }
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  transfer->protocol = Protocol::direct;
  transfer->path = request.path;
  transfer->record = request.record;
  transfer->remote = request.remote;
  transfer->connection = number;
  transfer->kind = Kind::prepared;
  transfer->endpoint = this;
  transfer->bytes = request.bytes;
  transfer->parts = 0;
  transfer->message = nullptr;
  transfer->request = &request;
  transfer->request_at = 0;
  transfer->then = request.to_flush.empty() ? Then::over : Then::flush;
  transfer->operation.fenced = std::exchange(fence_next, false);
  transfer->status = TransferState::Status::active;
  request.run = transfer;
  if (request.writes_to_engines) ++device_writes;
  Transfer handle = hand_out(*transfer);
  wait_in_queue(*transfer);
  post_waiting();
  return handle;
}

bool EndpointState::post_chunks(TransferState& transfer) noexcept {
  RequestState& request = *transfer.request;
  const auto count = static_cast<std::uint32_t>(request.chunks.size());
  while (transfer.request_at < count) {
    transport::PreparedChain& chunk = *request.chunks[transfer.request_at];
    const bool takes_credit = request.with_immediate && transfer.request_at + 1 == count;
    if (room() < chunk.size() || (takes_credit && !mail.credits.may_send())) return false;
    // The fence was asked for before this run, and holds for this run alone.
    const bool fenced = std::exchange(transfer.operation.fenced, false);
    Posted& posted = request.posted[transfer.request_at];
    posted.transfer = &transfer;
    posted.place = head;
    bool begun = false;
    const int result = transport::post(*data, chunk, fenced, begun);
    // Where those look that end what is under way.
    if (result == 0 || begun) next_place(&transfer, chunk.size());
    if (result != 0) [[unlikely]] {
      if (begun) {
        fail_midway(posted, &transfer, result);
        return false;
      }
      fail(system_error(Stage::post, "ibv_post_send", result, nic->info.name), &transfer);
      return false;
    }
    count_in(chunk.size(), &transfer);
    if (takes_credit) mail.credits.spend();
    ++transfer.request_at;
  }
  transfer.request_at = 0;  // of what is to be flushed
  return true;
}

bool EndpointState::post_next_flush(TransferState& transfer) noexcept {
  const RequestState& request = *transfer.request;
  if (transfer.request_at >= request.to_flush.size()) return false;
  transfer.operation = request.to_flush[transfer.request_at++];
  worker_nic.mover->start(transfer, 0);
  return true;
}

}  // namespace hbmwire::detail
