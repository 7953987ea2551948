// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/send_queue_datapath.hpp"
#include "endpoint/slice_checks_datapath.hpp"
#include "endpoint/way.hpp"
#include "mover/block_mover.hpp"
#include "transport/lane_datapath.hpp"

namespace hbmwire::detail {

using transport::Operation;

namespace {

BlockRun& run_of(TransferState& transfer) noexcept { return *transfer.as<Blocks>()->run; }

}  // namespace

/// The number of pairs from `pair` on, which is of blocks `i` and `j`, that lie side by side at
/// both ends.
std::uint64_t BlockRun::side_by_side(std::uint64_t pair, std::uint64_t i, std::uint64_t j,
                                     std::uint64_t most) const noexcept {
  const BlockNumbers& from = pairs.here_numbers;
  const BlockNumbers& to = pairs.there_numbers;
  std::uint64_t count = 1;
  while (count < most && pair + count < from.size && from[pair + count] == i + count &&
         to[pair + count] == j + count && here->has(i + count) && there->has(j + count))
    ++count;
  return count;
}

/// Aims requests from index `count` on, up to `all`, at pairs of the current two areas. Returns how
/// many requests are aimed then.
template <class Chain>
std::uint32_t BlockRun::aim(Chain& chain, std::uint32_t count, std::uint32_t all,
                            std::uint64_t most) noexcept {
  // These are copies, so that the compiler keeps them in registers: a store to the chain could
  // change the members.
  const BlockNumbers from = pairs.here_numbers;
  const BlockNumbers to = pairs.there_numbers;
  const std::uint64_t bytes = pairs.here->block_bytes;
  const std::uint64_t here_first = here->first;
  const std::uint64_t here_blocks = here->blocks;
  const std::uint64_t there_first = there->first;
  const std::uint64_t there_blocks = there->blocks;
  transport::Aim at{.local_key = local_key, .remote_key = remote_key};
  std::uint64_t pair = next;
  for (; count < all && pair < from.size; ++count) {
    const std::uint64_t i = from[pair];
    const std::uint64_t j = to[pair];
    // As BlockArea::has() of both areas.
    if (i - here_first >= here_blocks || j - there_first >= there_blocks) break;
    const bool goes_on = pair + 1 < from.size && from[pair + 1] == i + 1;
    const std::uint64_t blocks = goes_on ? side_by_side(pair, i, j, most) : 1;
    at.local = local + (i - here_first) * bytes;
    at.remote = remote + (j - there_first) * bytes;
    at.length = static_cast<std::uint32_t>(blocks * bytes);
    chain.aim(count, at);
    pair += blocks;
  }
  next = pair;
  return count;
}

BlockPiece BlockRun::take(std::uint64_t most) noexcept {
  const std::uint64_t i = pairs.here_numbers[next];
  const std::uint64_t j = pairs.there_numbers[next];
  const std::uint64_t bytes = pairs.here->block_bytes;
  const std::uint64_t count = side_by_side(next, i, j, most);
  next += count;
  return {(i - here->first) * bytes, (j - there->first) * bytes, count * bytes};
}

bool BlockMover::advance(TransferState& transfer) noexcept {
  // A part that ends may call this again.
  if (std::exchange(advancing_, true)) return false;
  BlockRun& run = run_of(transfer);
  bool goes_on = true;
  // A part that its mover has is driven to its end, whatever becomes of the whole.
  while (goes_on && (run.part != nullptr || (!run.failed && !run.all_begun())))
    goes_on = run.part != nullptr ? advance_part(run) : begin_next(transfer, run);
  advancing_ = false;
  // Nothing follows the bytes of a transfer that has failed.
  if (!goes_on || run.failed) return goes_on;
  return post_behind(transfer, run);
}

bool BlockMover::begin_next(TransferState& whole, BlockRun& run) noexcept {
  // advance() sees that the transfer has failed.
  if (!enter(whole, run)) return true;
  if (run.shared) return copy_shared(whole, run);
  return run.plain ? post_chain(whole, run) : begin_part(whole, run);
}

/// Finds the areas of the next pair. False: there are none.
bool BlockMover::enter(TransferState& whole, BlockRun& run) noexcept {
  const std::uint64_t i = run.pairs.here_numbers[run.next];
  const std::uint64_t j = run.pairs.there_numbers[run.next];
  if (run.here != nullptr && run.here->has(i) && run.there->has(j)) [[likely]]
    return true;
  run.here = nullptr;
  if (i >= run.pairs.here->size || j >= run.pairs.there->size) {
    fail_alone(whole, make_error(Errc::invalid_argument, Stage::complete,
                                 "a block's number was changed under way", endpoint_.peer));
    return false;
  }
  run.here = &run.pairs.here->area_of(i);
  run.there = &run.pairs.there->area_of(j);
  const RegionState& local = state_of(run.here->memory);
  const RemoteRegionState& distant = RemoteRegionState::of(run.there->memory);
  const std::uint64_t block_bytes = run.pairs.here->block_bytes;
  const Slice here{&run.here->memory, run.here->offset_bytes, block_bytes};
  const RemoteSlice there{&run.there->memory, run.there->offset_bytes, block_bytes};
  const bool by_cpu = endpoint_.movers.shared.reaches(local, distant);
  // Blocks that are too long for one copy go as parts, which SharedMover cuts into pieces.
  run.shared = by_cpu && block_bytes <= transport::Neighbour::kMostBytes;
  if (run.shared) {
    Route route;
    endpoint_.set_route(route, &local, &distant);
    route.path = Path::shared_memory;
    take_route(whole, route);
    run.local = local.address() + run.here->offset_bytes;
    run.remote = distant.address + run.there->offset_bytes;
    return true;
  }
  // An engine or further NICs could carry the blocks as well, but a list goes by the lane.
  Operation operation;
  run.plain = !by_cpu && !endpoint_.paths.is_staged(local.path) && distant.path != Path::staged &&
              block_bytes <= endpoint_.sends.most_bytes() &&
              endpoint_.checks.reach_local(operation, here) && endpoint_.checks.reach_remote(there);
  if (!run.plain) return true;
  run.local_key = operation.local_key;
  run.remote_key = distant.remote_key;
  run.local = local.address() + run.here->offset_bytes;
  run.remote = distant.address + run.there->offset_bytes;
  return enter_plain(whole, run, here, distant);
}

/// Notes that the lane will carry blocks between two areas. False: a put cannot become visible
/// there.
bool BlockMover::enter_plain(TransferState& whole, BlockRun& run, const Slice& here,
                             const RemoteRegionState& distant) noexcept {
  endpoint_.checks.note(here, distant.type);
  Route route;
  endpoint_.set_route(route, &state_of(*here.region), &distant);
  take_route(whole, route);
  if (run.pairs.gets) return true;
  endpoint_.movers.engine_writes.note(distant);
  if (!run.visible || endpoint_.paths.by_tcp() || !is_by_nic(distant.path)) return true;
  if (const auto may = check_visible(distant, endpoint_.peer); !may) {
    fail_alone(whole, may.error());
    return false;
  }
  const auto index = static_cast<std::size_t>(run.there - run.pairs.there->areas.data());
  run.written.set(index % run.written.size());
  return true;
}

/// Makes `route` the whole transfer's, if its path is the worst so far.
void BlockMover::take_route(TransferState& whole, const Route& route) noexcept {
  if (whole.remote == kUnknownRemote || route.path >= whole.path)
    static_cast<Route&>(whole) = route;
}

/// Posts the next chain. True: some blocks were begun. False: there is no room.
bool BlockMover::post_chain(TransferState& whole, BlockRun& run) noexcept {
  SendQueue& sends = endpoint_.sends;
  if (!endpoint_.sends.has_room(chain_requests_)) return false;
  const std::uint64_t most = sends.most_bytes() / run.pairs.here->block_bytes;
  std::uint32_t count = 0;
  while (count < chain_requests_ && !run.all_begun() && enter(whole, run) && run.plain)
    count = transport::with_chain(sends.lane(), *chain_, [&](auto& chain) {
      return run.aim(chain, count, chain_requests_, most);
    });
  // The next pair has failed, or goes another way: begin_next() finds out.
  if (count == 0) return true;
  const auto opcode = run.pairs.gets ? transport::Opcode::read : transport::Opcode::write;
  const bool fenced = std::exchange(whole.operation.fenced, false);
  const int result = sends.post(*chain_, count, opcode, fenced, &whole);
  if (result != 0) [[unlikely]]
    endpoint_.fail_post(result, &whole);
  return result == 0;
}

/// Copies some blocks, once the NIC has nothing of the endpoint under way. False: not yet.
bool BlockMover::copy_shared(TransferState& whole, BlockRun& run) noexcept {
  using transport::Neighbour;
  if (endpoint_.sends.outstanding() != 0 || parts_ != 0 ||
      endpoint_.sends.fence_holds_back(endpoint_.movers.moving != 0))
    return false;
  whole.operation.fenced = false;  // nothing is left that the fence must wait for
  const RegionState& local = state_of(run.here->memory);
  const RemoteRegionState& distant = RemoteRegionState::of(run.there->memory);
  const auto* const here = run.here;
  const auto* const there = run.there;
  const std::uint64_t most =
      std::max<std::uint64_t>(Neighbour::kMostBytes / run.pairs.here->block_bytes, 1);
  Neighbour& neighbour = endpoint_.movers.shared.neighbour();
  Result<void> copied = neighbour.hold(distant.shared, distant.token);
  std::uint64_t bytes = 0;
  while (copied && bytes < Neighbour::kMostBytes && !run.all_begun() &&
         here->has(run.pairs.here_numbers[run.next]) &&
         there->has(run.pairs.there_numbers[run.next])) {
    const BlockPiece piece = run.take(most);
    copied = neighbour.copy_held({.local = std::bit_cast<std::byte*>(run.local + piece.here_bytes),
                                  .remote = run.remote + piece.there_bytes,
                                  .length_bytes = piece.length_bytes,
                                  .gets = run.pairs.gets,
                                  .guarded = !local.kept});
    bytes += piece.length_bytes;
  }
  neighbour.let_go();
  ++endpoint_.worker->event_count;
  if (!copied) {
    fail_alone(whole, copied.error());
    return true;
  }
  // A long transfer takes turns with the worker's other work: progress() goes on with it.
  return run.all_begun() || bytes < Neighbour::kMostBytes || !poll_on();
}

/// Lets the worker call progress() for the rest. False: there is no memory for that.
bool BlockMover::poll_on() noexcept {
  if (polled_) return true;
  const auto listed = guarded(Stage::complete, [&]() -> Result<void> {
    endpoint_.worker->at_engines.push_back(this);
    return {};
  });
  polled_ = listed.has_value();
  if (polled_) ++endpoint_.worker->staged;
  return polled_;
}

void BlockMover::poll_no_more() noexcept {
  if (!std::exchange(polled_, false)) return;
  std::erase(endpoint_.worker->at_engines, this);
  --endpoint_.worker->staged;
}

std::size_t BlockMover::progress() noexcept {
  if (endpoint_.phase == EndpointPhase::ready) endpoint_.post_waiting();
  return 1;
}

void BlockMover::drain(const Error& /*why*/) noexcept { poll_no_more(); }

/// Begins a part for the next piece. False: no transfer is left for it.
bool BlockMover::begin_part(TransferState& whole, BlockRun& run) noexcept {
  // Few parts at a time: a stopped peer may hold their transfers for long, and other endpoints need
  // some, too.
  if (parts_ == kMostParts) return false;
  TransferPool& transfers = endpoint_.worker->transfers;
  TransferState* const part = transfers.take_part(whole);
  if (part == nullptr) {
    endpoint_.look_soon();
    return false;
  }
  const BlockPiece piece = run.take(~std::uint64_t{0});
  const Slice here{&run.here->memory, run.here->offset_bytes + piece.here_bytes,
                   piece.length_bytes};
  const RemoteSlice there{&run.there->memory, run.there->offset_bytes + piece.there_bytes,
                          piece.length_bytes};
  const auto begun = guarded(Stage::post, [&] {
    return start_part(*part, run, {here, there, run.pairs.gets});
  });
  if (!begun) {
    transfers.give_back(*part);
    fail_alone(whole, begun.error());
    return true;
  }
  part->operation.fenced = std::exchange(whole.operation.fenced, false);
  part->waiting = true;
  run.part = part;
  run.by_parts = true;
  ++parts_;
  ++whole.parts;
  return true;
}

Result<void> BlockMover::start_part(TransferState& part, const BlockRun& run, const Move& move) {
  Operation& operation = part.operation;
  operation = {};
  if (move.gets) operation.opcode = transport::Opcode::read;
  const Access needed = move.gets ? Access::remote_read : Access::remote_write;
  HBMWIRE_TRY(endpoint_.checks.find_local(operation, move.here));
  HBMWIRE_TRY(endpoint_.checks.find_remote(operation, move.there, needed));
  HBMWIRE_TRY_ASSIGN(const Way way, find_way(endpoint_, operation, move));
  if (run.visible && way.by_nic)
    HBMWIRE_TRY(flush_after(operation, move.distant(), endpoint_.peer));
  part.protocol = Protocol::direct;
  endpoint_.set_route(part, &move.local(), &move.distant());
  const bool to_device = move.gets && part.path != Path::host && move.local().path != Path::host;
  part.then = to_device ? Then::flush : Then::over;
  if (way.mover != nullptr)
    return endpoint_.start_moved(*way.mover, operation, part, move, way.by_nic);
  endpoint_.checks.note(move.here, move.distant().type);
  if (!move.gets) endpoint_.movers.engine_writes.note(move.distant());
  part.begin(&endpoint_, move.kind(), operation.length);
  part.move_by(endpoint_.movers.piece, Pieces{});
  return {};
}

bool BlockMover::advance_part(BlockRun& run) noexcept {
  TransferState& part = *run.part;
  if (!part.mover->advance(part) || endpoint_.phase != EndpointPhase::ready) return false;
  run.part = nullptr;
  part.waiting = false;
  part.mover->finish(part);
  return endpoint_.phase == EndpointPhase::ready;
}

/// Posts the requests that follow the bytes: the immediate, and for a put that becomes visible a
/// READ of each area that the lane wrote.
bool BlockMover::post_behind(TransferState& whole, BlockRun& run) noexcept {
  const auto& areas = run.pairs.there->areas;
  while (run.written.any() && run.behind < areas.size()) {
    const RemoteRegionState& region = RemoteRegionState::of(areas[run.behind].memory);
    if (run.written.test(run.behind % run.written.size()) && is_by_nic(region.path)) {
      if (!endpoint_.sends.has_room(SendQueue::kRequestsOfPost)) return false;
      const Operation read = endpoint_.worker_nic.read_back(
          region.address + areas[run.behind].offset_bytes, region.remote_key);
      if (const int result = endpoint_.sends.post(read, &whole); result != 0) {
        endpoint_.fail_post(result, &whole);
        return false;
      }
    }
    ++run.behind;
  }
  if (!whole.operation.with_immediate) return true;
  // Must come after the requests of the lane, and after all parts.
  if (run.by_parts && whole.parts != 0) return false;
  if (!endpoint_.movers.ring.is_on()) return endpoint_.post_immediate(whole);
  // 0 bytes come with the immediate, as with the empty WRITE of a NIC.
  return endpoint_.sends.outstanding() == 0 &&
         endpoint_.messages.tell_by_ring(whole.operation.immediate, 0);
}

bool BlockMover::finish(TransferState& transfer) noexcept {
  poll_no_more();
  if (transfer.parts == 0) endpoint_.go_on(transfer);
  return true;
}

void BlockMover::abandon(TransferState& transfer) noexcept {
  poll_no_more();
  TransferState* const part = std::exchange(run_of(transfer).part, nullptr);
  if (part == nullptr) return;
  part->waiting = false;
  if (part->then == Then::over) part->then = Then::cut;
  if (part->parts == 0) endpoint_.ending.mark_failed(*part);
}

std::optional<std::uint32_t> BlockMover::flush_key(
    const BlockAreas<Region>::Area& area) const noexcept {
  const RegionState& region = state_of(area.memory);
  return region.path == Path::host ? std::nullopt : region.local_key(*endpoint_.nic);
}

bool BlockMover::flush_next(TransferState& transfer) noexcept {
  BlockRun& run = run_of(transfer);
  const auto& areas = run.pairs.here->areas;
  while (run.behind < areas.size()) {
    const auto& area = areas[run.behind++];
    const auto key = flush_key(area);
    if (!key) continue;
    transfer.operation.local = area.memory.address() + area.offset_bytes;
    transfer.operation.local_key = *key;
    transfer.operation.length = run.pairs.here->bytes_of(area);
    endpoint_.worker_nic.mover->start(transfer, /*remote_key=*/0);
    return true;
  }
  if (run.failed) transfer.then = Then::fail;
  return false;
}

/// The first error becomes the transfer's. Bytes of gets are flushed before it fails.
void BlockMover::fail_alone(TransferState& whole, const Error& why) noexcept {
  BlockRun& run = run_of(whole);
  if (std::exchange(run.failed, true)) return;
  endpoint_.worker->transfers.set_error(whole, why);
  if (whole.then != Then::flush) whole.then = Then::fail;
  if (std::exchange(whole.operation.fenced, false)) endpoint_.sends.return_fence(true);
}

void BlockMover::end_part(TransferState& whole, const Route& route, const Error* why) noexcept {
  const EndpointPhase phase = endpoint_.phase;
  take_route(whole, route);
  if (why != nullptr && phase == EndpointPhase::ready) {
    fail_alone(whole, *why);
  } else if (why != nullptr && whole.then != Then::fail) {
    // The whole transfer fails with its endpoint. It can be flushed only before the endpoint
    // reports.
    const bool flushes = whole.then == Then::flush && phase == EndpointPhase::ending;
    if (!flushes) whole.then = Then::cut;
  }
  --parts_;
  if (--whole.parts == 0 && !whole.waiting) endpoint_.go_on(whole);
  if (endpoint_.phase == EndpointPhase::ready && !endpoint_.pending.empty() && !advancing_)
    endpoint_.post_waiting();
}

}  // namespace hbmwire::detail
