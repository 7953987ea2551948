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

/// For warn_of_copies(): the peer's memory may be a device's where this end's is not.
void note_over_tcp(const EndpointState& endpoint, const RemoteRegionState& there) noexcept {
  if (endpoint.link != nullptr && there.type != MemoryType::host) endpoint.device_over_tcp = true;
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
  return worker->prepare_staging(worker_nic);
}

inline Result<void> EndpointState::local_of(Operation& operation, const Slice& slice,
                                            bool copied) const {
  if (nic->context.is_inherited()) [[unlikely]]
    return tl::make_unexpected(verbs::inherited_error(*nic, Stage::post));
  if (slice.length_bytes == 0) return {};
  if (slice.region == nullptr) return refuse("a slice of no region", peer);
  const RegionState& region = slice.region->state();
  const std::uint64_t size = region.size_bytes;
  if (slice.offset_bytes > size || slice.length_bytes > size - slice.offset_bytes) [[unlikely]]
    return refuse("the slice leaves its region", peer);
  if (copied) [[unlikely]] {
    operation.local = region.address() + slice.offset_bytes;
    operation.length = slice.length_bytes;
    return {};
  }
  const auto key = region.local_key(*nic);
  if (!key) [[unlikely]]
    HBMWIRE_TRY(check_reach(region));
  if (!paths.is_plain(region.path)) [[unlikely]]
    HBMWIRE_TRY(paths.check(region));
  operation.local = region.address() + slice.offset_bytes;
  operation.length = slice.length_bytes;
  operation.local_key = key.value_or(0);
  return {};
}

inline Result<void> EndpointState::remote_of(Operation& operation, const RemoteSlice& slice,
                                             Access needed, bool copied) const {
  if (slice.region == nullptr) return refuse("a slice of no remote region", peer);
  const RemoteRegionState& region = RemoteRegionState::of(*slice.region);
  const bool ours = (region.connection & ~kByEngine) == number;
  if (!ours || (region.path == Path::staged && needed == Access::remote_atomic)) [[unlikely]]
    HBMWIRE_TRY(check_proxied(region, needed));
  if (slice.offset_bytes > region.length_bytes ||
      slice.length_bytes > region.length_bytes - slice.offset_bytes) [[unlikely]]
    return refuse("the slice leaves the remote region", peer);
  if (!has(region.access, needed)) [[unlikely]] {
    return refuse("the peer's key does not allow it", peer, Errc::permission_denied,
                  Hint::memory_key_access);
  }
  const bool kept_to_engines = is_by_engine(region) && !paths.admits(region.path);
  // No byte goes by the NIC where there is none: the request stands in the order alone.
  if (kept_to_engines && !copied && slice.length_bytes != 0) [[unlikely]] {
    return refuse(
        "the path policy excludes how the NIC reaches the peer's memory, and no engine copies",
        peer, Errc::permission_denied, Hint::path_policy);
  }
  operation.remote = region.address + slice.offset_bytes;
  operation.remote_key = region.remote_key;
  return {};
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
  return local_of(operation, slice, false);
}

Result<void> EndpointState::set_remote(Operation& operation, const RemoteSlice& slice,
                                       Access needed) const {
  return remote_of(operation, slice, needed, false);
}

void EndpointState::fail_midway(Posted& posted, TransferState* transfer, int result) noexcept {
  count_in(posted.requests, transfer);
  fail(system_error(Stage::post, "ibv_post_send", result, nic->info.name), transfer);
  // Where the queue does not take that either, the queue pair is destroyed in time.
  post_last_of(posted);
}

void EndpointState::post_last_of(Posted& posted) noexcept {
  // The queue pair is in ERROR: nothing of it is carried out, and it comes back behind the others.
  const Operation nothing;
  static_cast<void>(data->post(nothing, transport::to_id(&posted, transport::Tag::posted)));
}

Operation WorkerNic::read_last_of(const Operation& operation) const noexcept {
  Operation read;
  read.local = results.address() + results.size_bytes() - kSpareBytes;
  read.remote = operation.remote + operation.length - 1;
  read.length = 1;
  read.local_key = *results.state().local_key(nic.state());
  read.remote_key = operation.remote_key;
  read.opcode = transport::Opcode::read;
  return read;
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
  transfer.request = nullptr;
  if (room() >= 2 && first_waiting == nullptr && operation.length <= max_message &&
      !operation.with_immediate && transfer.kind == TransferState::Kind::one_sided) [[likely]] {
    const int result = post_now(operation, &transfer);
    if (result != 0 && transfer.parts == 0) [[unlikely]] {
      fence_next = operation.fenced;
      worker->give_back(transfer);
      return tl::make_unexpected(
          system_error(Stage::post, "ibv_post_send", result, nic->info.name));
    }
  } else {
    transfer.operation = operation;
    Transfer handle = hand_out(transfer);  // an engine may be done at once
    wait_in_queue(transfer);
    post_waiting();
    return handle;
  }
  return hand_out(transfer);
}

void EndpointState::wait_in_queue(TransferState& transfer) noexcept {
  transfer.waiting = true;
  ++queued;
  transfer.next = nullptr;
  (first_waiting == nullptr ? first_waiting : last_waiting->next) = &transfer;
  last_waiting = &transfer;
}

void EndpointState::post_waiting() noexcept {
  if (mail.pressing) post_pressing();
  while (first_waiting != nullptr && phase == EndpointPhase::ready) {
    TransferState& transfer = *first_waiting;
    if (!post_rest(transfer)) return;
    first_waiting = transfer.next;
    transfer.waiting = false;
    ++unqueued;
    if (transfer.kind == TransferState::Kind::staged) {
      worker_nic.staged->finish(transfer);
    } else if (transfer.kind == TransferState::Kind::proxied) {
      finish_proxied(transfer);
    } else if (transfer.kind == TransferState::Kind::copied) {
      worker->copier->finish(transfer);
    } else if (transfer.kind == TransferState::Kind::railed && transfer.parts == 0) {
      go_on(transfer);
    }
  }
}

bool EndpointState::post_rest(TransferState& transfer) noexcept {
  switch (transfer.kind) {
    case TransferState::Kind::send:
      return post_send(transfer);
    case TransferState::Kind::prepared:
      return post_chunks(transfer);
    case TransferState::Kind::staged:
      return go_on_staged(transfer);
    case TransferState::Kind::proxied:
      return go_on_proxied(transfer);
    case TransferState::Kind::copied:
      return go_on_copied(transfer);
    case TransferState::Kind::railed:
      return rails->go_on(transfer);
    case TransferState::Kind::one_sided:
    case TransferState::Kind::receive:
      break;
  }
  return post_pieces(transfer);
}

bool EndpointState::go_on_staged(TransferState& transfer) noexcept {
  StagedMover& mover = *worker_nic.staged;
  // Its pieces go by the same queue pair as what was started before, and arrive behind that.
  if (!mover.has(transfer)) {
    if (!pieces.settle(transfer)) return false;
    if (!mover.begin(transfer)) return false;
  }
  return mover.go_on(transfer) && phase == EndpointPhase::ready;
}

bool EndpointState::post_pieces(TransferState& transfer) noexcept {
  Operation& rest = transfer.operation;
  while (room() >= 2) {
    const bool last = rest.length <= longest_message;
    if (last && rest.with_immediate && !mail.credits.may_send()) return false;
    Operation piece = rest;
    if (!last) {
      piece.length = longest_message;
      piece.with_immediate = false;
      piece.flushed = false;
    }
    if (const int result = post(piece, &transfer); result != 0) {
      fail(system_error(Stage::post, "ibv_post_send", result, nic->info.name), &transfer);
      return false;
    }
    if (last) {
      if (rest.with_immediate) mail.credits.spend();
      return true;
    }
    rest.local += longest_message;
    rest.remote += longest_message;
    rest.length -= longest_message;
  }
  return false;
}

void EndpointState::on_posted(Posted& posted) noexcept {
  pop(posted);
  if (TransferState* const transfer = posted.transfer; transfer != nullptr) [[likely]] {
    if (--transfer->parts == 0 && !transfer->waiting) {
      if (transfer->then == TransferState::Then::over) [[likely]] {
        worker->succeed(*transfer);
      } else {
        go_on(*transfer);
      }
    }
  }
  if (first_waiting != nullptr || mail.pressing) [[unlikely]]
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
    if (transfer->then == TransferState::Then::fail) {
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
  const bool copied = paths.copies() && is_copied(from, to);
  const bool shared = paths.shares() && is_shared(from, to);
  const bool by_engine =
      copied || (shared && !has_other_route(from.region->state(), *remote_state_of(to)));
  HBMWIRE_TRY(local_of(operation, from, by_engine));
  HBMWIRE_TRY(remote_of(operation, to, Access::remote_write, by_engine));
  const RemoteRegionState& there = RemoteRegionState::of(*to.region);
  if (from.length_bytes != to.length_bytes) [[unlikely]]
    return refuse("the two slices differ in length", peer);
  if (put_options.immediate) [[unlikely]] {
    operation.with_immediate = true;
    operation.immediate = *put_options.immediate;
  }
  // What an engine has written others of its device see.
  if (put_options.level == CompletionLevel::visible && !copied) [[unlikely]]
    HBMWIRE_TRY(flush_after(operation, there, peer));
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  transfer->protocol = Protocol::direct;
  set_route(*transfer, state_of(from), &there);
  if (copied) [[unlikely]] {
    copy(*transfer, operation, from, to);
    return start(operation, *transfer);
  }
  const std::uint64_t writes_before = device_writes;
  if (transfer->path >= Path::staged) [[unlikely]] {
    if (!by_engine) HBMWIRE_TRY(stage(*transfer, from, there));
    if (!shared) note_over_tcp(*this, there);
  } else {
    if (rails && rails->takes(operation, from, there)) rails->take(*transfer, from, there);
    // The CPU reads what is inlined, which it can't from a device.
    operation.inlined = from.length_bytes != 0 && from.length_bytes <= inline_bytes &&
                        from.region->state().path == Path::host;
    note_write(there);
  }
  if (shared) [[unlikely]] {
    share(*transfer, operation, from, to);
    operation.swap = writes_before;
  }
  return start(operation, *transfer);
}

Result<Transfer> EndpointState::get(const Slice& into, const RemoteSlice& from) {
  if (phase != EndpointPhase::ready) [[unlikely]]
    return tl::make_unexpected(not_ready());
  Operation operation;
  operation.opcode = transport::Opcode::read;
  const bool copied = paths.copies() && is_copied(into, from);
  const bool shared = paths.shares() && is_shared(into, from);
  const bool by_engine =
      copied || (shared && !has_other_route(into.region->state(), *remote_state_of(from)));
  HBMWIRE_TRY(local_of(operation, into, by_engine));
  HBMWIRE_TRY(remote_of(operation, from, Access::remote_read, by_engine));
  const RemoteRegionState& there = RemoteRegionState::of(*from.region);
  HBMWIRE_TRY(check_writable(into, peer));
  if (from.length_bytes != into.length_bytes) [[unlikely]]
    return refuse("the two slices differ in length", peer);
  TransferState* const transfer = worker->take();
  if (transfer == nullptr) [[unlikely]]
    return tl::make_unexpected(no_transfer_left());
  transfer->protocol = Protocol::direct;
  set_route(*transfer, state_of(into), &there);
  if (copied) [[unlikely]] {
    copy(*transfer, operation, into, from);
    return start(operation, *transfer);
  }
  if (transfer->path >= Path::staged) [[unlikely]] {
    if (!by_engine) HBMWIRE_TRY(stage(*transfer, into, there));
    if (!shared) note_over_tcp(*this, there);
  } else if (rails && rails->takes(operation, into, there)) {
    rails->take(*transfer, into, there);
  }
  if (transfer->path != Path::host && into.length_bytes != 0 &&
      into.region->state().path != Path::host && transfer->kind != TransferState::Kind::staged) {
    // A put's WRITE is its own peer's; what a READ brought here must be made visible here.
    transfer->then = TransferState::Then::flush;
    transfer->message = nullptr;
    transfer->operation = operation;
  }
  if (shared) [[unlikely]]
    share(*transfer, operation, into, from);
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
  note_write(there);
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
