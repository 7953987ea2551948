// SPDX-License-Identifier: MIT
#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "mover/ipc_server.hpp"

// Two processes of a node: the peer's opens this end's memory, and its engine copies
// (docs/adr/0025).
namespace hbmwire::detail {

using transport::Operation;

bool EndpointState::may_share(MemoryType type, Path path) const noexcept {
  if (!paths.shares() || type == MemoryType::dmabuf) return false;
  return has_ipc(type) || peer_moves(path);
}

bool EndpointState::is_shared(const Slice& here, const RemoteSlice& there) const {
  if (here.region == nullptr || there.region == nullptr || here.length_bytes == 0) return false;
  const RegionState& local = here.region->state();
  const RemoteRegionState& distant = RemoteRegionState::of(*there.region);
  if (distant.connection != (number | kByEngine)) return false;
  const MemoryDomain& memory = local.allocation.domain();
  const MemoryType type = memory.device().type;
  // The host's any device's engine reaches, and the CPU.
  if (!memory.is_shareable() || (type != MemoryType::host && type != distant.type)) return false;
  return can_be_flushed(distant) &&
         (is_ipc_wanted(here.length_bytes, type, distant) || !has_other_route(local, distant));
}

bool EndpointState::peer_moves(Path path) const noexcept {
  return link != nullptr || path == Path::staged;
}

/// By the NIC nothing would be needed of a peer that makes no progress, perhaps; and from host
/// memory an engine is not the faster way.
bool EndpointState::is_ipc_wanted(std::uint64_t bytes, MemoryType type,
                                  const RemoteRegionState& distant) const {
  const bool first = paths.shares_first() && type != MemoryType::host;
  return bytes >= worker->context.settings().endpoint.ipc_from_bytes && !ipc_refused &&
         (peer_moves(distant.path) || first);
}

bool EndpointState::has_other_route(const RegionState& local,
                                    const RemoteRegionState& distant) const {
  const bool reached = link != nullptr || local.local_key(*nic) || paths.is_staged(local.path);
  return reached && paths.admits(local.path) && paths.admits(distant.path);
}

void EndpointState::share(TransferState& transfer, Operation& operation, const Slice& here,
                          const RemoteSlice& there) const {
  transfer.fallback = {.possible = has_other_route(here.region->state(), *remote_state_of(there)),
                       .flushed = operation.flushed,
                       .kind = transfer.kind,
                       .then = transfer.then,
                       .path = transfer.path,
                       .protocol = transfer.protocol};
  transfer.then = TransferState::Then::over;
  transfer.protocol = Protocol::proxied;
  copy(transfer, operation, here, there, Path::ipc);
}

void EndpointState::fall_back(TransferState& transfer, const Error& why) noexcept {
  const TransferState::Fallback& way = transfer.fallback;
  transfer.kind = way.kind;
  transfer.then = way.then;
  transfer.path = way.path;
  transfer.protocol = way.protocol;
  transfer.operation.flushed = way.flushed;
  if (std::exchange(ipc_refused, true)) return;
  worker->labels[number].ipc_refused = true;
  log_line(LogLevel::warn, [&] {
    return "transfers with " + peer + " go by " +
           std::string(to_string(worker->path_of(transfer))) + " and not by IPC: " + describe(why);
  });
}

bool EndpointState::asks_for_ipc() const noexcept {
  return worker->copier && worker->copier->asks(*this);
}

bool EndpointState::no_ipc_goes_on(Clock::time_point at) const noexcept {
  if (phase != EndpointPhase::ending) return phase != EndpointPhase::ready;
  // Who says goodbye has nothing under way, and begins nothing.
  return ending.peer_is_quiet() || watch.peer_has_ended() || at >= ending.settle_by();
}

void EndpointState::on(const wire::IpcCopy& message) {
  // Who ends says Fenced, and nothing else.
  if (phase != EndpointPhase::ready) return;
  if (serves_ipc || control.is_behind()) {
    control.lose(broken_protocol("the peer asks for more copies than one at a time"));
  } else if (paths.shares()) {
    if (!worker->ipc_server) worker->ipc_server = std::make_unique<IpcServer>(*worker);
    worker->ipc_server->begin(*this, message);
  } else {
    const bool excluded = paths.placement() == Placement::same_node;
    log_refused(*this, "does not get it",
                make_error(Errc::permission_denied, Stage::open,
                           excluded ? "the path policy of this end excludes ipc"
                                    : "the two ends are not two processes of one node",
                           peer, excluded ? Hint::path_policy : Hint::none));
    control.say(wire::IpcCopied{message.id, wire::IpcCopied::Outcome::unopened});
  }
}

void EndpointState::on(const wire::IpcCopied& message) noexcept {
  if (!worker->copier || !worker->copier->on_copied(*this, message)) {
    control.lose(broken_protocol("the peer answers what it was not asked"));
    return;
  }
  ++worker->event_count;
  if (phase == EndpointPhase::ready) post_waiting();
}

}  // namespace hbmwire::detail
