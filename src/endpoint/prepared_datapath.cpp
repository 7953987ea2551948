// SPDX-License-Identifier: MIT
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

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
  transfer->endpoint = this;
  transfer->bytes = request.bytes;
  transfer->parts = 0;
  transfer->move_by(list_mover, Prepared{&request});
  transfer->then = request.to_flush.empty() ? Then::over : Then::flush;
  transfer->operation.fenced = std::exchange(fence_next, false);
  transfer->status = TransferState::Status::active;
  request.run = transfer;
  if (request.writes_to_engines) engine_writes.note_list();
  Transfer handle = hand_out(*transfer);
  pending.append(*transfer);
  post_waiting();
  return handle;
}

}  // namespace hbmwire::detail
