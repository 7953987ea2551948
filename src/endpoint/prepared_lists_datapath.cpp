// SPDX-License-Identifier: MIT
#include <utility>

#include "base/probes.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

Result<Transfer> PreparedLists::post(RequestState& request) {
  if (endpoint_.phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(endpoint_.not_ready());
  if (request.under_way()) [[unlikely]] {
    return tl::make_unexpected(make_error(
        Errc::busy, Stage::post, "the prepared transfer is still under way", endpoint_.peer));
  }
  TransferState* const transfer = endpoint_.worker->transfers.take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(endpoint_.worker->transfers.none_left(endpoint_.peer));
  transfer->protocol = Protocol::direct;
  transfer->path = request.path;
  transfer->record = request.record;
  transfer->remote = request.remote;
  transfer->connection = endpoint_.number;
  transfer->begin(&endpoint_, request.kind, request.bytes);
  HBMWIRE_PROBE4(ask, transfer, transfer->connection, transfer->kind, transfer->bytes);
  transfer->move_by(endpoint_.movers.list, Prepared{&request});
  transfer->then = request.to_flush.empty() ? Then::over : Then::flush;
  transfer->operation.fenced = endpoint_.sends.take_fence();
  request.run = transfer;
  if (request.writes_to_engines) endpoint_.movers.engine_writes.note_list();
  Transfer handle = endpoint_.hand_out(*transfer);
  enqueue(endpoint_, *transfer);
  return handle;
}

}  // namespace hbmwire::detail
