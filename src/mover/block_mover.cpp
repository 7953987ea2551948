// SPDX-License-Identifier: MIT
#include "mover/block_mover.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/probes.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/slice_checks_datapath.hpp"
#include "endpoint/way.hpp"

namespace hbmwire::detail {

namespace {

tl::unexpected<Error> refuse(const char* why, std::string_view subject) {
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::post, why, subject));
}

Result<void> check_numbers(const BlockNumbers& numbers, std::uint64_t table_size,
                           std::string_view peer) {
  const std::uint64_t most = greatest(numbers);
  if (numbers.size == 0 || most < table_size) return {};
  return refuse(
      "a block's number is beyond the end of its table",
      std::string(peer) + ": " + std::to_string(most) + " of " + std::to_string(table_size));
}

}  // namespace

Result<void> BlockMover::check(const BlockPairs& pairs, bool visible) const {
  const std::string& peer = endpoint_.peer;
  if (pairs.here_numbers.size != pairs.there_numbers.size)
    return refuse("the two arrays have different numbers of blocks", peer);
  if (pairs.here->block_bytes != pairs.there->block_bytes)
    return refuse("the two tables have blocks of different length", peer);
  HBMWIRE_TRY(check_numbers(pairs.here_numbers, pairs.here->size, peer));
  HBMWIRE_TRY(check_numbers(pairs.there_numbers, pairs.there->size, peer));
  transport::Operation operation;
  for (const auto& area : pairs.here->areas) {
    const Slice slice{&area.memory, area.offset_bytes, pairs.here->bytes_of(area)};
    HBMWIRE_TRY(endpoint_.checks.find_local(operation, slice));
    if (pairs.gets) HBMWIRE_TRY(check_writable(slice, peer));
  }
  const Access needed = pairs.gets ? Access::remote_read : Access::remote_write;
  for (const auto& area : pairs.there->areas) {
    const RemoteSlice slice{&area.memory, area.offset_bytes, pairs.there->bytes_of(area)};
    HBMWIRE_TRY(endpoint_.checks.find_remote(operation, slice, needed));
    const RemoteRegionState& region = RemoteRegionState::of(area.memory);
    if (visible && is_by_nic(region.path) && !is_by_engine(region) && region.shared == 0)
      HBMWIRE_TRY(check_visible(region, peer));
  }
  return {};
}

/// Makes the chain of requests: at most half of the send queue, so that one chain can be sent while
/// another is aimed.
void BlockMover::make_chain() {
  if (chain_) return;
  constexpr std::uint32_t kMost = 64;
  chain_requests_ = std::clamp<std::uint32_t>(endpoint_.options.send_depth / 2, 1, kMost);
  // Each request gets one byte for now, since an empty request has no element to aim.
  transport::Request some;
  some.operation.length = 1;
  some.signaled = false;
  chain_ = endpoint_.sends.lane().prepare(std::vector(chain_requests_, some));
}

Result<Transfer> BlockMover::move(const BlockPairs& pairs, const PutOptions& put_options) {
  if (endpoint_.phase != EndpointPhase::ready || endpoint_.worker->made.is_inherited())
    return tl::make_unexpected(endpoint_.not_ready());
  const bool visible = put_options.level == CompletionLevel::visible;
  HBMWIRE_TRY(check(pairs, visible));
  if (pairs.here_numbers.size == 0 && !put_options.immediate) return endpoint_.flush();
  TransferPool& transfers = endpoint_.worker->transfers;
  transfers.make_block_runs();
  make_chain();
  TransferState* const transfer = transfers.take();
  if (transfer == nullptr) return tl::make_unexpected(transfers.none_left(endpoint_.peer));
  BlockRun& run = transfers.block_run_of(*transfer);
  run = BlockRun{};
  run.pairs = pairs;
  run.visible = visible;
  transfer->protocol = Protocol::direct;
  endpoint_.set_route(*transfer, nullptr, nullptr);
  transfer->begin(&endpoint_, pairs.gets ? TransferKind::get : TransferKind::put,
                  pairs.here->block_bytes * pairs.here_numbers.size);
  HBMWIRE_PROBE4(ask, transfer, transfer->connection, transfer->kind, transfer->bytes);
  transfer->move_by(*this, Blocks{&run});
  const bool to_device = std::ranges::any_of(
      pairs.here->areas, [&](const auto& area) { return flush_key(area).has_value(); });
  transfer->then = pairs.gets && to_device ? Then::flush : Then::over;
  transport::Operation operation;
  operation.fenced = endpoint_.sends.take_fence();
  operation.with_immediate = put_options.immediate.has_value();
  operation.immediate = put_options.immediate.value_or(0);
  return endpoint_.wait_in_queue(operation, *transfer);
}

}  // namespace hbmwire::detail
