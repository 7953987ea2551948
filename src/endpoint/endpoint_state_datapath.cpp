// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "base/probes.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/send_queue_datapath.hpp"
#include "endpoint/slice_checks_datapath.hpp"
#include "endpoint/transfer_counts_datapath.hpp"
#include "endpoint/transfer_trace.hpp"
#include "endpoint/way.hpp"

namespace hbmwire::detail {

namespace {

using transport::Operation;

tl::unexpected<Error> refuse(const char* why, std::string_view subject,
                             Errc code = Errc::invalid_argument, Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(code, Stage::post, why, subject, hint));
}

const RegionState* region_of(const Slice& slice) noexcept {
  return slice.region == nullptr ? nullptr : &state_of(*slice.region);
}

}  // namespace

Result<void> check_visible(const RemoteRegionState& to, std::string_view peer) {
  if (has(to.access, Access::remote_read)) return {};
  return refuse(
      "a put of level visible reads back its last byte, and the peer's key does not allow reads",
      peer, Errc::permission_denied, Hint::memory_key_access);
}

Result<void> flush_after(Operation& put, const RemoteRegionState& to, std::string_view peer) {
  // The peer's process says when bytes that it moves are there: no READ is needed.
  if (!is_by_nic(to.path)) return {};
  HBMWIRE_TRY(check_visible(to, peer));
  put.flushed = put.length != 0;
  return {};
}

[[gnu::noinline]] Result<Way> find_way(EndpointState& endpoint, Operation& operation,
                                       const Move& move) {
  Way way;
  way.mover = endpoint.movers.table.find(endpoint, move);
  way.by_nic = way.mover == nullptr || way.mover->needs_nic(endpoint, move);
  if (way.by_nic) {
    HBMWIRE_TRY(endpoint.checks.reach_local(operation, move.here));
    HBMWIRE_TRY(endpoint.checks.reach_remote(move.there));
  }
  return way;
}

namespace {

/// Forced in line, as WorkerState::succeed().
[[gnu::always_inline]] inline Transfer hand_out_here(WorkerState& worker,
                                                     TransferState& transfer) noexcept {
  transfer.held = true;
  HBMWIRE_PROBE3(path, &transfer, transfer.connection, transfer.way());
  if (worker.attends) [[unlikely]]
    worker.attend(transfer);
  if (worker.counts.note_started(*transfer.endpoint->counts)) [[unlikely]]
    worker.attends = true;
  return handle_of<Transfer>(&transfer);
}

}  // namespace

inline Result<Transfer> EndpointState::start(Operation& operation, TransferState& transfer,
                                             TransferKind kind) noexcept {
  // The fence is taken only here: an operation that was refused has left it to the next one.
  operation.fenced = sends.take_fence();
  operation.inlined = operation.inlined && sends.may_be_copied();
  if (operation.inlined) transfer.protocol = Protocol::inlined;
  transfer.begin(this, kind, operation.length);
  HBMWIRE_PROBE4(ask, &transfer, transfer.connection, transfer.kind, transfer.bytes);
  if (worker->attends) [[unlikely]]
    worker->note_asked(transfer);
  if (sends.room() >= SendQueue::kRequestsOfPost && pending.empty() &&
      operation.length <= sends.most_bytes() && !operation.with_immediate) [[likely]] {
    const int result = sends.post_here(operation, &transfer);
    if (result != 0 && transfer.parts == 0) [[unlikely]] {
      sends.return_fence(operation.fenced);
      worker->transfers.give_back(transfer);
      return tl::make_unexpected(post_error(result));
    }
    return hand_out_here(*worker, transfer);
  }
  transfer.move_by(movers.piece, Pieces{});
  return wait_in_queue(operation, transfer);
}

Result<void> EndpointState::start_moved(Mover& mover, Operation& operation, TransferState& transfer,
                                        const Move& move, bool by_nic) {
  // Asked before start(), which may change the path.
  const bool nic_writes = by_nic && !move.gets && transfer.path < Path::staged;
  transfer.begin(this, move.kind(), operation.length);
  HBMWIRE_TRY(mover.start(transfer, operation, move));
  // Nothing is noted if an engine or this CPU alone carries the bytes.
  if (transfer.path < Path::copy || transfer.path == Path::tcp)
    checks.note(move.here, move.distant().type);
  if (nic_writes) movers.engine_writes.note(move.distant());
  return {};
}

namespace {

Result<Transfer> start_by(EndpointState& endpoint, const Way& way, Operation& operation,
                          TransferState& transfer, const Move& move) {
  HBMWIRE_PROBE4(ask, &transfer, transfer.connection, move.kind(), operation.length);
  const auto started = endpoint.start_moved(*way.mover, operation, transfer, move, way.by_nic);
  if (!started) {
    endpoint.worker->transfers.give_back(transfer);
    return tl::make_unexpected(started.error());
  }
  operation.fenced = endpoint.sends.take_fence();
  return endpoint.wait_in_queue(operation, transfer);
}

}  // namespace

Transfer EndpointState::wait_in_queue(const Operation& operation,
                                      TransferState& transfer) noexcept {
  transfer.operation = operation;
  Transfer handle = hand_out(transfer);  // an engine may be done at once, so the handle must exist
                                         // before
  enqueue(*this, transfer);
  return handle;
}

void enqueue(EndpointState& endpoint, TransferState& transfer) noexcept {
  const bool behind = !endpoint.pending.empty();
  endpoint.worker->transfers.note_queued(transfer);
  endpoint.pending.append(transfer);
  endpoint.post_waiting();
  if (transfer.waiting) endpoint.counts->queued.add(1);
  if ((transfer.at_end & AtEnd::kTrace) != 0) [[unlikely]]
    trace_queued(transfer, behind);
}

Transfer EndpointState::hand_out(TransferState& transfer) noexcept {
  return hand_out_here(*worker, transfer);
}

void EndpointState::post_waiting() noexcept {
  if (pressing) messages.post_pressing();
  while (!pending.empty() && phase == EndpointPhase::ready) {
    TransferState& transfer = *pending.first();
    if (!transfer.mover->advance(transfer) || phase != EndpointPhase::ready) return;
    pending.pop();
    if ((transfer.at_end & AtEnd::kTime) != 0) [[unlikely]]
      worker->transfers.times_of(transfer).posted = Clock::now();
    if ((transfer.at_end & AtEnd::kTrace) != 0) [[unlikely]]
      trace_posted(transfer);
    transfer.mover->finish(transfer);
  }
  if (pending.empty()) sends.end_queue();
}

bool EndpointState::post_immediate(TransferState& transfer) noexcept {
  if (!sends.has_room(SendQueue::kRequestsOfPost) || !messages.has_credit()) return false;
  Operation nothing;
  nothing.with_immediate = true;
  nothing.immediate = transfer.operation.immediate;
  nothing.fenced = std::exchange(transfer.operation.fenced, false);
  if (const int result = sends.post(nothing, &transfer); result != 0) {
    fail_post(result, &transfer);
    return false;
  }
  messages.spend_credit();
  return true;
}

void EndpointState::on_posted(Posted& posted) noexcept {
  sends.pop(posted);
  if (TransferState* const transfer = posted.transfer; transfer != nullptr) [[likely]] {
    if (--transfer->parts == 0 && !transfer->waiting) {
      if (transfer->then == Then::over) [[likely]] {
        worker->succeed(*transfer);
      } else {
        go_on(*transfer);
      }
    }
  }
  if (has_waiting()) [[unlikely]]
    post_waiting();
}

void EndpointState::on_failed(const Posted& posted, const transport::Completion& completion,
                              bool last) noexcept {
  sends.pop_before(posted);
  if (phase == EndpointPhase::ready)
    fail(transport::completion_error(completion, peer), posted.transfer);
  if (!last) return;
  sends.pop(posted);
  give_up(posted.transfer);
}

void EndpointState::give_up(TransferState* transfer) noexcept {
  if (transfer != nullptr && --transfer->parts == 0 && !transfer->waiting) {
    if (transfer->then == Then::fail) {
      go_on(*transfer);
    } else {
      ending.mark_failed(*transfer);
    }
  }
  ending.advance(worker->now);
  look_soon();
}

void EndpointState::go_on(TransferState& transfer) noexcept {
  const bool ends = phase == EndpointPhase::ending || phase == EndpointPhase::failed ||
                    transfer.then == Then::cut;
  if (ends && transfer.then != Then::fail) return ending.mark_failed(transfer);
  switch (transfer.then) {
    case Then::flush:
      return worker_nic.mover->make_visible(transfer);
    case Then::answer:
      messages.on_read(transfer);
      break;
    case Then::fail:
      return worker->fail(transfer, Error(worker->transfers.error_of(transfer)), /*settled=*/true);
    case Then::over:
    case Then::cut:
      break;
  }
  worker->succeed(transfer);
  if (pressing && phase == EndpointPhase::ready) post_waiting();
}

void EndpointState::on_moved(TransferState& transfer) noexcept {
  const bool failed = transfer.then == Then::fail;
  messages.on_moved(transfer, failed ? wire::MessageHeader::Outcome::refused
                                     : wire::MessageHeader::Outcome::taken);
  if (transfer.then == Then::flush && transfer.flush_next()) return;
  if (transfer.then != Then::fail && transfer.then != Then::cut) transfer.then = Then::over;
  go_on(transfer);
  ending.settle();
  if (sends.fence_is_open() && !pending.empty()) [[unlikely]]
    post_waiting();
}

Result<Transfer> EndpointState::put(const Slice& from, const RemoteSlice& to,
                                    const PutOptions& put_options) {
  // With a thousand peers the counts are in no cache. They are needed last, so they can be fetched
  // meanwhile.
  __builtin_prefetch(counts, 1);
  if (phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(not_ready());
  Operation operation;
  HBMWIRE_TRY(checks.find_local(operation, from));
  HBMWIRE_TRY(checks.find_remote(operation, to, Access::remote_write));
  const RemoteRegionState& there = RemoteRegionState::of(*to.region);
  if (from.length_bytes != to.length_bytes) [[unlikely]]
    return refuse("the two slices differ in length: take a part of the longer one", peer);
  Way way;
  if (!checks.is_plain(operation, from, there)) [[unlikely]] {
    if (!put_options.immediate &&
        movers.shared.is_at_once(state_of(*from.region), there, operation.length))
      return movers.shared.copy_at_once(operation, {from, to, /*gets=*/false});
    HBMWIRE_TRY_ASSIGN(
        way,
        find_way(*this, operation, {from, to, /*gets=*/false, put_options.immediate.has_value()}));
  }
  if (put_options.immediate) [[unlikely]] {
    operation.with_immediate = true;
    operation.immediate = *put_options.immediate;
  }
  // An engine of the same device sees bytes of another engine without a flush.
  if (put_options.level == CompletionLevel::visible && way.by_nic) [[unlikely]]
    HBMWIRE_TRY(flush_after(operation, there, peer));
  TransferState* const transfer = worker->transfers.take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(worker->transfers.none_left(peer));
  transfer->protocol = Protocol::direct;
  set_route(*transfer, region_of(from), &there);
  if (way.mover != nullptr) [[unlikely]]
    return start_by(*this, way, operation, *transfer,
                    {from, to, /*gets=*/false, put_options.immediate.has_value()});
  if (transfer->path >= Path::staged) [[unlikely]] {
    // By TCP: nothing is inlined, and no NIC writes behind an engine's back.
    checks.note(from, there.type);
  } else {
    // The CPU reads inlined bytes, which it cannot do in device memory.
    operation.inlined = from.length_bytes != 0 && from.length_bytes <= sends.inline_bytes() &&
                        state_of(*from.region).path == Path::host;
    movers.engine_writes.note(there);
  }
  return start(operation, *transfer, TransferKind::put);
}

Result<Transfer> EndpointState::get(const Slice& into, const RemoteSlice& from) {
  if (phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(not_ready());
  Operation operation;
  operation.opcode = transport::Opcode::read;
  HBMWIRE_TRY(checks.find_local(operation, into));
  HBMWIRE_TRY(checks.find_remote(operation, from, Access::remote_read));
  const RemoteRegionState& there = RemoteRegionState::of(*from.region);
  HBMWIRE_TRY(check_writable(into, peer));
  if (from.length_bytes != into.length_bytes) [[unlikely]]
    return refuse("the two slices differ in length: take a part of the longer one", peer);
  Way way;
  if (!checks.is_plain(operation, into, there)) [[unlikely]] {
    if (movers.shared.is_at_once(state_of(*into.region), there, operation.length))
      return movers.shared.copy_at_once(operation, {into, from, /*gets=*/true});
    HBMWIRE_TRY_ASSIGN(way, find_way(*this, operation, {into, from, /*gets=*/true}));
  }
  TransferState* const transfer = worker->transfers.take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(worker->transfers.none_left(peer));
  transfer->protocol = Protocol::direct;
  set_route(*transfer, region_of(into), &there);
  if (transfer->path != Path::host && into.length_bytes != 0 &&
      state_of(*into.region).path != Path::host) {
    // A put's WRITE becomes visible at the peer. Bytes that a READ brought here must be made
    // visible here.
    transfer->then = Then::flush;
    transfer->operation = operation;
  }
  if (way.mover != nullptr) [[unlikely]]
    return start_by(*this, way, operation, *transfer, {into, from, /*gets=*/true});
  if (transfer->path >= Path::staged) [[unlikely]]
    checks.note(into, there.type);
  return start(operation, *transfer, TransferKind::get);
}

Result<Transfer> EndpointState::atomic(const RemoteSlice& at, Operation operation) {
  // A put by a child of fork(2) is refused by find_local(), which neither this nor flush() calls.
  if (phase != EndpointPhase::ready || worker->made.is_inherited()) [[unlikely]]
    return tl::make_unexpected(not_ready());
  HBMWIRE_TRY(verbs::check_atomics(*nic, Stage::post));
  HBMWIRE_TRY(checks.remote(operation, at, Access::remote_atomic));
  const RemoteRegionState& there = RemoteRegionState::of(*at.region);
  if (at.length_bytes != sizeof(std::uint64_t) || operation.remote % sizeof(std::uint64_t) != 0)
    return refuse("an atomic is of 8 bytes at a multiple of 8", peer);
  if (paths.by_tcp() && there.type != MemoryType::host) {
    return refuse("an atomic over TCP is the peer's CPU's, which does not reach a device's memory",
                  peer, Errc::not_supported, Hint::no_atomics);
  }
  TransferState* const transfer = worker->transfers.take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(worker->transfers.none_left(peer));
  const Region& results = worker_nic.results;
  operation.local =
      results.address() + worker->transfers.index_of(*transfer) * sizeof(std::uint64_t);
  operation.local_key = state_of(results).local_key(*nic).value_or(0);
  operation.length = sizeof(std::uint64_t);
  transfer->protocol = Protocol::direct;
  transfer->at_end |= AtEnd::kFetch;
  set_route(*transfer, nullptr, &there);
  movers.engine_writes.note(there);
  return start(operation, *transfer, TransferKind::atomic);
}

Result<Transfer> EndpointState::flush() {
  if (phase != EndpointPhase::ready || worker->made.is_inherited())
    return tl::make_unexpected(not_ready());
  TransferState* const transfer = worker->transfers.take();
  if (transfer == nullptr) return tl::make_unexpected(worker->transfers.none_left(peer));
  transfer->protocol = Protocol::direct;
  set_route(*transfer, nullptr, nullptr);
  // A reliable connection completes requests in the order in which they were posted. An empty
  // message is therefore over when everything before it is.
  Operation nothing;
  return start(nothing, *transfer, TransferKind::flush);
}

}  // namespace hbmwire::detail
