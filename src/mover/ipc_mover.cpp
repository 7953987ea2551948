// SPDX-License-Identifier: MIT
#include "mover/ipc_mover.hpp"

#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/probes.hpp"
#include "endpoint/endpoint_state.hpp"
#include "mover/ipc_server.hpp"

namespace hbmwire::detail {

bool IpcMover::may_share(MemoryType type, Path path) const noexcept {
  if (!endpoint_.paths.shares() || type == MemoryType::dmabuf) return false;
  return has_ipc(type) || peer_moves(path);
}

bool IpcMover::takes(const EndpointState& endpoint, const Move& move) const {
  const RemoteRegionState& distant = move.distant();
  if (distant.connection != (endpoint.number | kByEngine)) return false;
  const MemoryDomain& memory = move.local().allocation.domain();
  const MemoryType type = memory.device().type;
  // Any device's engine reaches host memory.
  if (!memory.is_shareable() || (type != MemoryType::host && type != distant.type)) return false;
  // Between host memories this end's CPU copies, if any CPU does (SharedMover).
  if (type == MemoryType::host && distant.type == MemoryType::host) return false;
  return endpoint.movers.engine_writes.can_be_flushed(distant) &&
         (is_wanted(move.here.length_bytes, type, distant) || !has_other_route(move));
}

std::uint64_t IpcMover::asked_from() const noexcept {
  return endpoint_.worker->context.settings().endpoint.ipc_from_bytes;
}

/// Whether the other path would take the peer's process as well.
bool IpcMover::peer_moves(Path path) const noexcept {
  return endpoint_.paths.by_tcp() || path == Path::staged;
}

/// Whether IPC is better than the other path. A NIC needs no progress of the peer, and for host
/// memory an engine is not faster than a NIC.
bool IpcMover::is_wanted(std::uint64_t bytes, MemoryType type,
                         const RemoteRegionState& distant) const {
  const bool before_nic = endpoint_.paths.shares_first() && type != MemoryType::host;
  return bytes >= asked_from() && !refused_ && (peer_moves(distant.path) || before_nic);
}

/// Whether another path carries the bytes if IPC does not.
bool IpcMover::has_other_route(const Move& move) const {
  const RegionState& local = move.local();
  const bool reached = endpoint_.paths.by_tcp() || local.local_key(*endpoint_.nic) ||
                       endpoint_.paths.is_staged(local.path);
  return reached && endpoint_.paths.admits(local.path) &&
         endpoint_.paths.admits(move.distant().path);
}

Result<void> IpcMover::start(TransferState& transfer, transport::Operation& operation,
                             const Move& move) {
  Ipc ipc;
  ipc.copied = {move.distant().token, endpoint_.movers.engine_writes.written()};
  if (has_other_route(move)) {
    // Prepared now, since the slices belong to the application and may be gone later.
    Mover* const other = endpoint_.movers.table.find_after(*this, endpoint_, move);
    if (other != nullptr) HBMWIRE_TRY(other->start(transfer, operation, move));
    ipc.fallback.mover = other != nullptr ? other : &endpoint_.movers.piece;
    if (other == nullptr) ipc.fallback.payload = Pieces{};
    if (const Staged* const staged = transfer.as<Staged>()) ipc.fallback.payload = *staged;
    if (const Proxied* const proxied = transfer.as<Proxied>()) ipc.fallback.payload = *proxied;
    if (transfer.as<Railed>() != nullptr) ipc.fallback.payload = Railed{};
    ipc.fallback.flushed = operation.flushed;
    ipc.fallback.then = transfer.then;
    ipc.fallback.path = transfer.path;
    ipc.fallback.protocol = transfer.protocol;
  }
  // From here on as for an engine's copy, which needs no READ behind it.
  operation.flushed = false;
  transfer.then = Then::over;
  transfer.path = Path::ipc;
  transfer.protocol = Protocol::proxied;
  transfer.region = &move.local();
  transfer.move_by(*this, ipc);
  return {};
}

bool IpcMover::advance(TransferState& transfer) noexcept {
  if (!EngineMover::advance(transfer)) return false;
  if (!given_up_ || endpoint_.phase != EndpointPhase::ready) return true;
  take_out();
  fall_back(transfer, *std::exchange(given_up_, std::nullopt));
  return transfer.mover->advance(transfer);
}

/// Lets the transfer take the path that start() has prepared; the first time the log says why.
void IpcMover::fall_back(TransferState& transfer, const Error& why) noexcept {
  const Ipc::Fallback way = transfer.as<Ipc>()->fallback;
  std::visit([&](const auto& payload) { transfer.move_by(*way.mover, payload); }, way.payload);
  transfer.then = way.then;
  transfer.path = way.path;
  transfer.protocol = way.protocol;
  transfer.operation.flushed = way.flushed;
  HBMWIRE_PROBE5(fallback, Fallback::ipc, endpoint_.peer.c_str(), Path::ipc, way.path, why.code);
  if (std::exchange(refused_, true)) return;
  WorkerState& worker = *endpoint_.worker;
  worker.labels.find(endpoint_.number)->ipc_refused = true;
  log_line(LogLevel::warn, [&] {
    return "transfers with " + endpoint_.peer + " go by " +
           std::string(to_string(worker.labels.path_of(transfer))) +
           " and not by IPC: " + describe(why);
  });
}

/// Refuses IPC for the job. If the transfer has another path, it takes that; otherwise it fails.
void IpcMover::refuse(Job& job, const Error& why) noexcept {
  const bool may_fall_back = job.transfer.as<Ipc>()->fallback.mover != nullptr;
  (may_fall_back ? given_up_ : job.error) = why;
}

void IpcMover::begin(Job& job) noexcept {
  if (endpoint_.ending.peer_left()) {
    endpoint_.fail(make_error(Errc::peer_failed, Stage::complete, "the peer has said goodbye",
                              endpoint_.peer, Hint::peer_gone),
                   &job.transfer);
    return;
  }
  const transport::Operation& what = job.transfer.operation;
  auto handle = job.memory.domain().ipc_handle(what.local, what.length);
  if (!handle) {
    // A shortage passes, so it must not make the endpoint avoid IPC for good.
    if (!is_shortage(handle.error())) return refuse(job, handle.error());
    job.error = handle.error();
    return;
  }
  asked_ = ++count_;
  set_polled(false);
  endpoint_.control.say(wire::IpcCopy{.id = asked_,
                                      .put = what.opcode != transport::Opcode::read,
                                      .token = job.transfer.as<Ipc>()->copied.token,
                                      .address = what.remote,
                                      .handle = *handle});
}

bool IpcMover::has_ended(Job& /*job*/) noexcept {
  if (asked_ != 0 && !is_over_for_sure(endpoint_.worker->now)) return false;
  asked_ = 0;
  return true;
}

/// Whether the peer's engine can touch no more memory of this end, or need not be waited for any
/// longer.
bool IpcMover::is_over_for_sure(Clock::time_point at) const noexcept {
  if (endpoint_.phase != EndpointPhase::ending) return endpoint_.phase != EndpointPhase::ready;
  // A peer that says goodbye has nothing under way, and begins nothing.
  return endpoint_.ending.peer_is_quiet() || endpoint_.watch.peer_has_ended() ||
         at >= endpoint_.ending.settle_by();
}

/// From here on the peer's answer is not the only end of the wait: the job must be polled.
void IpcMover::cancel(EndpointState& /*endpoint*/) noexcept { set_polled(true); }

void IpcMover::on(const wire::IpcCopy& message) {
  // An end that is ending sends only Fenced.
  if (endpoint_.phase != EndpointPhase::ready) return;
  WorkerState& worker = *endpoint_.worker;
  if (serves_ || endpoint_.control.is_behind()) {
    endpoint_.break_protocol("the peer asks for more copies than one at a time");
  } else if (endpoint_.paths.shares()) {
    if (!worker.neighbours.ipc_server)
      worker.neighbours.ipc_server = std::make_unique<IpcServer>(worker);
    worker.neighbours.ipc_server->begin(endpoint_, message);
  } else {
    const bool excluded = endpoint_.paths.placement() == Placement::same_node;
    log_refused("does not get it",
                make_error(Errc::permission_denied, Stage::open,
                           excluded ? "the path policy of this end excludes ipc"
                                    : "the two ends are not two processes of one node",
                           endpoint_.peer, excluded ? Hint::path_policy : Hint::none));
    endpoint_.control.say(wire::IpcCopied{message.id, wire::IpcCopied::Outcome::unopened});
  }
}

void IpcMover::on(const wire::IpcCopied& answer) noexcept {
  if (asked_ == 0 || answer.id != asked_) {
    endpoint_.break_protocol("the peer answered a question that was not asked");
    return;
  }
  asked_ = 0;
  set_polled(true);
  using Answer = wire::IpcCopied::Outcome;
  if (answer.outcome == Answer::unopened) {
    refuse(*job_,
           make_error(Errc::not_supported, Stage::open,
                      "the peer's process could not open this end's memory; its log says why",
                      endpoint_.peer));
  } else if (answer.outcome == Answer::failed) {
    job_->error = endpoint_.movers.proxied.refusal_of(wire::MessageHeader::Outcome::refused);
  } else if (answer.outcome == Answer::denied) {
    // A copy that the key forbids fails the endpoint, as with a NIC.
    endpoint_.fail(endpoint_.movers.proxied.refusal_of(wire::MessageHeader::Outcome::denied),
                   &job_->transfer);
  }
  ++endpoint_.worker->event_count;
  if (endpoint_.phase == EndpointPhase::ready) endpoint_.post_waiting();
}

void IpcMover::log_refused(const char* what, const Error& why) {
  if (!told_.is_new(why)) return;
  log_line(LogLevel::warn, [&] {
    return endpoint_.peer + " asked for a copy by IPC, and " + what + ": " + describe(why);
  });
}

}  // namespace hbmwire::detail
