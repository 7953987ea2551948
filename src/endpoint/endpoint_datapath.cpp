// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

using transport::Operation;

tl::unexpected<Error> refuse(const char* why, std::string_view subject,
                             Errc code = Errc::invalid_argument, Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(code, Stage::post, why, subject, hint));
}

const RegionState* state_of(const Slice& slice) noexcept {
  return slice.region == nullptr ? nullptr : &slice.region->state();
}

/// For a put that becomes visible: the READ of what it wrote.
Result<void> flush_after(Operation& put, const RemoteRegionState& to, std::string_view peer) {
  // What the peer's process has moved is there when that says so.
  if (!is_by_nic(to.path)) return {};
  if (!has(to.access, Access::remote_read)) {
    return refuse("a put that becomes visible reads what it wrote, which the key does not allow",
                  peer, Errc::permission_denied, Hint::memory_key_access);
  }
  put.flushed = put.length != 0;
  return {};
}

}  // namespace

/// Of a region that the endpoint's NIC does not have.
Result<void> EndpointState::check_reach(const RegionState& region) const {
  const bool staged = paths.is_staged(region.path);
  if (link == nullptr && (region.path == Path::copy || region.path == Path::ipc) && !staged) {
    return refuse(
        "the path policy leaves the slice's memory to engines that copy, and none carries this",
        nic->info.name, Errc::permission_denied, Hint::path_policy);
  }
  if (link == nullptr && !staged)
    return refuse("the slice's region is not registered with the endpoint's NIC", nic->info.name);
  if (!staged) return {};
  if (link != nullptr) {
    device_over_tcp = true;
    const MemoryDomain& domain = region.allocation.domain();
    if (domain.copy_engine().empty()) {
      return refuse("the device has no engine that copies, as an endpoint over TCP needs",
                    domain.device().name, Errc::not_supported);
    }
  }
  return worker_nic.staged->prepare();
}

/// Into `operation`, which bytes are meant.
inline Result<void> EndpointState::find_local(Operation& operation, const Slice& slice) const {
  if (nic->context.is_inherited()) [[unlikely]]
    return tl::make_unexpected(verbs::inherited_error(*nic, Stage::post));
  if (slice.length_bytes == 0) return {};
  if (slice.region == nullptr) return refuse("a slice of no region", peer);
  const RegionState& region = slice.region->state();
  const std::uint64_t size = region.size_bytes;
  if (slice.offset_bytes > size || slice.length_bytes > size - slice.offset_bytes) [[unlikely]]
    return refuse("the slice leaves its region", peer);
  operation.local = region.address() + slice.offset_bytes;
  operation.length = slice.length_bytes;
  return {};
}

/// Whether the NIC, or what carries the bytes to it, reaches them.
inline Result<void> EndpointState::reach_local(Operation& operation, const Slice& slice) const {
  if (slice.length_bytes == 0) return {};
  const RegionState& region = slice.region->state();
  const auto key = region.local_key(*nic);
  if (!key) [[unlikely]]
    HBMWIRE_TRY(check_reach(region));
  if (!paths.is_plain(region.path)) [[unlikely]]
    HBMWIRE_TRY(paths.check(region));
  operation.local_key = key.value_or(0);
  return {};
}

inline Result<void> EndpointState::find_remote(Operation& operation, const RemoteSlice& slice,
                                               Access needed) const {
  if (slice.region == nullptr) return refuse("a slice of no remote region", peer);
  const RemoteRegionState& region = RemoteRegionState::of(*slice.region);
  const bool ours = (region.connection & ~kByEngine) == number;
  if (!ours || (region.path == Path::staged && needed == Access::remote_atomic)) [[unlikely]]
    HBMWIRE_TRY(proxied.check(region, needed));
  if (slice.offset_bytes > region.length_bytes ||
      slice.length_bytes > region.length_bytes - slice.offset_bytes) [[unlikely]]
    return refuse("the slice leaves the remote region", peer);
  if (!has(region.access, needed)) [[unlikely]] {
    return refuse("the peer's key does not allow it", peer, Errc::permission_denied,
                  Hint::memory_key_access);
  }
  operation.remote = region.address + slice.offset_bytes;
  operation.remote_key = region.remote_key;
  return {};
}

inline Result<void> EndpointState::reach_remote(const RemoteSlice& slice) const {
  const RemoteRegionState& region = RemoteRegionState::of(*slice.region);
  const bool kept_to_engines = is_by_engine(region) && !paths.admits(region.path);
  // No byte goes by the NIC where there is none: the request stands in the order alone.
  if (kept_to_engines && slice.length_bytes != 0) [[unlikely]] {
    return refuse(
        "the path policy excludes how the NIC reaches the peer's memory, and no engine copies",
        peer, Errc::permission_denied, Hint::path_policy);
  }
  return {};
}

inline Mover* EndpointState::mover_for(const Slice& here, const RemoteSlice& there,
                                       bool gets) const {
  if (here.length_bytes == 0) return nullptr;
  const Path path = std::max(here.region->state().path, RemoteRegionState::of(*there.region).path);
  if (path < Path::staged && here.length_bytes <= movers.most_plain()) [[likely]]
    return nullptr;
  return movers.find(*this, {here, there, gets});
}

void EndpointState::count_in(std::uint32_t count, TransferState* transfer) noexcept {
  push(count, transfer);
  if (transfer != nullptr) ++transfer->parts;
}

inline int EndpointState::post_now(const Operation& operation, TransferState* transfer) noexcept {
  if (operation.flushed) [[unlikely]]
    return post_flushed(operation, transfer);
  Posted& posted = next_place(transfer, 1);
  const int result =
      transport::post(*data, operation, transport::to_id(&posted, transport::Tag::posted));
  if (result == 0) [[likely]]
    count_in(1, transfer);
  return result;
}

int EndpointState::post_flushed(const Operation& operation, TransferState* transfer) noexcept {
  Posted& posted = next_place(transfer, 2);
  const std::array<transport::Request, 2> chain{
      {{operation, transport::to_id(&posted, transport::Tag::part), false},
       {worker_nic.read_last_of(operation), transport::to_id(&posted, transport::Tag::posted)}}};
  bool begun = false;
  const int result = data->post(chain, begun);
  if (result == 0) [[likely]] {
    count_in(2, transfer);
  } else if (begun) {
    fail_midway(posted, transfer, result);
  }
  return result;
}

int EndpointState::post(const Operation& operation, TransferState* transfer) noexcept {
  return post_now(operation, transfer);
}

Result<void> EndpointState::set_local(Operation& operation, const Slice& slice) const {
  HBMWIRE_TRY(find_local(operation, slice));
  return reach_local(operation, slice);
}

Result<void> EndpointState::set_remote(Operation& operation, const RemoteSlice& slice,
                                       Access needed) const {
  HBMWIRE_TRY(find_remote(operation, slice, needed));
  return reach_remote(slice);
}

void EndpointState::fail_midway(Posted& posted, TransferState* transfer, int result) noexcept {
  count_in(posted.requests, transfer);
  fail_post(result, transfer);
  // Where the queue does not take that either, the queue pair is destroyed in time.
  post_last_of(posted);
}

void EndpointState::post_last_of(Posted& posted) noexcept {
  // The queue pair is in ERROR: nothing of it is carried out, and it comes back behind the others.
  const Operation nothing;
  static_cast<void>(data->post(nothing, transport::to_id(&posted, transport::Tag::posted)));
}

Operation WorkerNic::read_back(std::uint64_t address, std::uint32_t remote_key) const noexcept {
  Operation read;
  read.local = results.address() + results.size_bytes() - kSpareBytes;
  read.remote = address;
  read.length = 1;
  read.local_key = results.state().local_key(nic.state()).value_or(0);
  read.remote_key = remote_key;
  read.opcode = transport::Opcode::read;
  return read;
}

Operation WorkerNic::read_last_of(const Operation& operation) const noexcept {
  return read_back(operation.remote + operation.length - 1, operation.remote_key);
}

inline Result<Transfer> EndpointState::start(Operation& operation,
                                             TransferState& transfer) noexcept {
  // Taken here and not before: an operation that is refused leaves the fence to the next one.
  operation.fenced = std::exchange(fence_next, false);
  operation.inlined = operation.inlined && may_be_copied();
  if (operation.inlined) transfer.protocol = Protocol::inlined;
  transfer.endpoint = this;
  transfer.bytes = operation.length;
  transfer.parts = 0;
  transfer.status = TransferState::Status::active;
  if (room() >= 2 && pending.empty() && operation.length <= max_message &&
      !operation.with_immediate) [[likely]] {
    const int result = post_now(operation, &transfer);
    if (result != 0 && transfer.parts == 0) [[unlikely]] {
      fence_next = operation.fenced;
      worker->give_back(transfer);
      return tl::make_unexpected(post_error(result));
    }
    return hand_out(transfer);
  }
  transfer.move_by(piece_mover, Pieces{});
  return wait_in_queue(operation, transfer);
}

Result<Transfer> EndpointState::start_moved(Mover& mover, Operation& operation,
                                            TransferState& transfer, const Move& move,
                                            bool by_nic) {
  const bool nic_writes = by_nic && !move.gets && transfer.path < Path::staged;
  transfer.endpoint = this;
  if (const auto begun = mover.start(transfer, operation, move); !begun) {
    worker->give_back(transfer);
    return tl::make_unexpected(begun.error());
  }
  if (transfer.path != Path::copy && transfer.path != Path::ipc) note_over_tcp(move.distant());
  if (nic_writes) engine_writes.note(move.distant());
  operation.fenced = std::exchange(fence_next, false);
  return wait_in_queue(operation, transfer);
}

/// For warn_of_tcp(): the peer's memory may be a device's where this end's is not.
void EndpointState::note_over_tcp(const RemoteRegionState& there) const noexcept {
  if (link != nullptr && there.type != MemoryType::host) device_over_tcp = true;
}

Transfer EndpointState::wait_in_queue(const Operation& operation,
                                      TransferState& transfer) noexcept {
  transfer.bytes = operation.length;
  transfer.parts = 0;
  transfer.status = TransferState::Status::active;
  transfer.operation = operation;
  Transfer handle = hand_out(transfer);  // an engine may be done at once
  pending.append(transfer);
  post_waiting();
  return handle;
}

Transfer EndpointState::hand_out(TransferState& transfer) noexcept {
  transfer.held = true;
  if (worker->orphaned) [[unlikely]]
    ++worker->held;
  return Transfer(&transfer);
}

void EndpointState::post_waiting() noexcept {
  if (messages.is_pressing()) messages.post_pressing();
  while (!pending.empty() && phase == EndpointPhase::ready) {
    TransferState& transfer = *pending.first();
    if (!transfer.mover->advance(transfer) || phase != EndpointPhase::ready) return;
    pending.pop();
    transfer.mover->finish(transfer);
  }
}

bool EndpointState::post_immediate(TransferState& transfer) noexcept {
  if (room() < 2 || !messages.has_credit()) return false;
  Operation nothing;
  nothing.with_immediate = true;
  nothing.immediate = transfer.operation.immediate;
  if (const int result = post(nothing, &transfer); result != 0) {
    fail_post(result, &transfer);
    return false;
  }
  messages.spend_credit();
  return true;
}

bool EndpointState::fence_holds_back(std::uint32_t own) noexcept {
  // Until devices see what gets before the fence have brought. What else is moving ends by itself.
  fence_open = fence_open && moving != own;
  return fence_open;
}

void EndpointState::on_posted(Posted& posted) noexcept {
  pop(posted);
  if (TransferState* const transfer = posted.transfer; transfer != nullptr) [[likely]] {
    if (--transfer->parts == 0 && !transfer->waiting) {
      if (transfer->then == Then::over) [[likely]] {
        worker->succeed(*transfer);
      } else {
        go_on(*transfer);
      }
    }
  }
  if (!pending.empty() || messages.is_pressing()) [[unlikely]]
    post_waiting();
}

void EndpointState::on_failed(const Posted& posted, const transport::Completion& completion,
                              bool last) noexcept {
  over = posted.place;  // what was posted before it
  note_failure(completion, posted.transfer);
  if (!last) return;
  pop(posted);
  give_up(posted.transfer);
}

void EndpointState::note_failure(const transport::Completion& completion,
                                 TransferState* transfer) noexcept {
  if (phase == EndpointPhase::ready) fail(transport::completion_error(completion, peer), transfer);
}

/// A part of it is over that has failed; null: nobody asked for that.
void EndpointState::give_up(TransferState* transfer) noexcept {
  if (transfer != nullptr && --transfer->parts == 0 && !transfer->waiting) {
    if (transfer->then == Then::fail) {
      go_on(*transfer);
    } else {
      ending.mark_failed(*transfer);
    }
  }
  ending.advance(worker->now);
}

Result<Transfer> EndpointState::put(const Slice& from, const RemoteSlice& to,
                                    const PutOptions& put_options) {
  if (phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(not_ready());
  Operation operation;
  HBMWIRE_TRY(find_local(operation, from));
  HBMWIRE_TRY(find_remote(operation, to, Access::remote_write));
  const RemoteRegionState& there = RemoteRegionState::of(*to.region);
  if (from.length_bytes != to.length_bytes) [[unlikely]]
    return refuse("the two slices differ in length", peer);
  Mover* const mover = mover_for(from, to, false);
  const bool by_nic = mover == nullptr || mover->needs_nic(*this, {from, to, false});
  if (by_nic) [[likely]] {
    HBMWIRE_TRY(reach_local(operation, from));
    HBMWIRE_TRY(reach_remote(to));
  }
  if (put_options.immediate) [[unlikely]] {
    operation.with_immediate = true;
    operation.immediate = *put_options.immediate;
  }
  // What an engine has written others of its device see.
  if (put_options.level == CompletionLevel::visible && by_nic) [[unlikely]]
    HBMWIRE_TRY(flush_after(operation, there, peer));
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  transfer->protocol = Protocol::direct;
  set_route(*transfer, state_of(from), &there);
  if (mover != nullptr) [[unlikely]]
    return start_moved(*mover, operation, *transfer, {from, to, false}, by_nic);
  if (transfer->path >= Path::staged) [[unlikely]] {
    note_over_tcp(there);
  } else {
    // The CPU reads what is inlined, which it can't from a device.
    operation.inlined = from.length_bytes != 0 && from.length_bytes <= inline_bytes &&
                        from.region->state().path == Path::host;
    engine_writes.note(there);
  }
  return start(operation, *transfer);
}

Result<Transfer> EndpointState::get(const Slice& into, const RemoteSlice& from) {
  if (phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(not_ready());
  Operation operation;
  operation.opcode = transport::Opcode::read;
  HBMWIRE_TRY(find_local(operation, into));
  HBMWIRE_TRY(find_remote(operation, from, Access::remote_read));
  const RemoteRegionState& there = RemoteRegionState::of(*from.region);
  HBMWIRE_TRY(check_writable(into, peer));
  if (from.length_bytes != into.length_bytes) [[unlikely]]
    return refuse("the two slices differ in length", peer);
  Mover* const mover = mover_for(into, from, true);
  const bool by_nic = mover == nullptr || mover->needs_nic(*this, {into, from, true});
  if (by_nic) [[likely]] {
    HBMWIRE_TRY(reach_local(operation, into));
    HBMWIRE_TRY(reach_remote(from));
  }
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  transfer->protocol = Protocol::direct;
  set_route(*transfer, state_of(into), &there);
  if (transfer->path != Path::host && into.length_bytes != 0 &&
      into.region->state().path != Path::host) {
    // A put's WRITE is its own peer's; what a READ brought here must be made visible here.
    transfer->then = Then::flush;
    transfer->operation = operation;
  }
  if (mover != nullptr) [[unlikely]]
    return start_moved(*mover, operation, *transfer, {into, from, true}, by_nic);
  if (transfer->path >= Path::staged) [[unlikely]]
    note_over_tcp(there);
  return start(operation, *transfer);
}

Result<Transfer> EndpointState::atomic(const RemoteSlice& at, Operation operation) {
  if (phase != EndpointPhase::ready || worker->made.is_inherited()) [[unlikely]]
    return tl::make_unexpected(not_ready());
  HBMWIRE_TRY(verbs::check_atomics(*nic, Stage::post));
  HBMWIRE_TRY(set_remote(operation, at, Access::remote_atomic));
  const RemoteRegionState& there = RemoteRegionState::of(*at.region);
  if (at.length_bytes != sizeof(std::uint64_t) || operation.remote % sizeof(std::uint64_t) != 0)
    return refuse("an atomic is of 8 bytes at a multiple of 8", peer);
  if (link != nullptr && there.type != MemoryType::host) {
    return refuse("an atomic over TCP is the peer's CPU's, which does not reach a device's memory",
                  peer, Errc::not_supported, Hint::no_atomics);
  }
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  const Region& results = worker_nic.results;
  operation.local = results.address() + worker->index_of(*transfer) * sizeof(std::uint64_t);
  operation.local_key = results.state().local_key(*nic).value_or(0);
  operation.length = sizeof(std::uint64_t);
  transfer->protocol = Protocol::direct;
  transfer->fetches = true;
  set_route(*transfer, nullptr, &there);
  engine_writes.note(there);
  return start(operation, *transfer);
}

Result<Transfer> EndpointState::flush() {
  if (phase != EndpointPhase::ready || worker->made.is_inherited())
    return tl::make_unexpected(not_ready());
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) return tl::make_unexpected(no_transfer_left());
  transfer->protocol = Protocol::direct;
  set_route(*transfer, nullptr, nullptr);
  // What is over on a reliable connection is over in the order in which it was posted: a message
  // of nothing is over when all before it is.
  Operation nothing;
  return start(nothing, *transfer);
}

Error EndpointState::no_transfer_left() const noexcept {
  return make_error(Errc::exhausted, Stage::post, "all of the worker's transfers are in use", peer,
                    Hint::transfers_exhausted);
}

}  // namespace hbmwire::detail
