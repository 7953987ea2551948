// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/xrc.hpp"

#include <cerrno>

#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/state/allocation.hpp"

namespace hbmwire::emulation::nic {
namespace {

bool is_named(const XrcdRecord& domain, const XrcdRequest& request) {
  return domain.id.load() != 0 && request.inode != 0 && domain.inode == request.inode &&
         domain.device == request.device && domain.nic == request.nic;
}

/// The id of the domain that the file names, or 0. Header::allocation is held.
std::uint64_t find_xrcd(SharedState& shared, const XrcdRequest& request) {
  for (const XrcdRecord& domain : in_use(shared.xrcds, shared.uses.xrcds)) {
    if (is_named(domain, request)) return domain.id.load();
  }
  return 0;
}

/// Takes a record for a handle. Header::allocation is held. Returns 0 if the table is full.
std::uint32_t claim_handle(Process& process, const EventSource& events) {
  SharedState& shared = process.shared();
  const std::uint32_t index = shared.uses.xrc_handles.claim();
  if (index == 0) return 0;
  XrcHandleRecord& handle = shared.xrc_handles[index];
  handle.owner.store(process.slot());
  handle.events = events;
  handle.claimed = 1;
  return index;
}

}  // namespace

XrcdClaim claim_xrcd(Process& process, const XrcdRequest& request) {
  SharedState& shared = process.shared();
  // Handles of dead processes do not count.
  for (const XrcdRecord& domain : in_use(shared.xrcds, shared.uses.xrcds)) {
    if (is_named(domain, request)) process.reap(domain.owner.load());
  }
  const Allocation guard(process);
  if (!guard.held()) return {0, EBUSY};
  std::uint64_t id = find_xrcd(shared, request);
  if (request.inode != 0 && id == 0 && !request.may_create) return {0, EAGAIN};
  if (id != 0 && request.must_create) return {0, EINVAL};
  if (id == 0) id = process.new_id();
  const std::uint32_t index = shared.uses.xrcds.claim();
  if (index == 0) return {0, ENOMEM};
  XrcdRecord& domain = shared.xrcds[index];
  domain.owner.store(process.slot());
  domain.nic = request.nic;
  domain.device = request.device;
  domain.inode = request.inode;
  domain.id.store(id);
  return {index, 0};
}

void release_xrcd(Process& process, std::uint32_t index) {
  process.shared().xrcds[index].id.store(0);  // this one store frees the handle
  release_record(process, [&process, index] { process.shared().uses.xrcds.release(index); });
}

XrcQpClaim open_xrc_qp(Process& process, std::uint64_t xrcd, std::uint32_t qpn,
                       const EventSource& events) {
  SharedState& shared = process.shared();
  QpRecord& qp = shared.qps[qp_index(qpn)];
  if (qpn != 0 && qp.qpn.load() == qpn) process.reap(qp.owner.load());
  const Allocation guard(process);
  if (!guard.held()) return {0, 0, EBUSY};
  const bool is_there = qpn != 0 && qp.claimed != 0 && qp.qpn.load() == qpn &&
                        qp.type == IBV_QPT_XRC_RECV && qp.xrcd == xrcd;
  if (!is_there) return {0, 0, EINVAL};
  const std::uint32_t handle = claim_handle(process, events);
  if (handle == 0) return {0, 0, ENOMEM};
  const Hold queue(qp.queue);
  if (!queue.held()) {
    shared.xrc_handles[handle].claimed = 0;
    shared.uses.xrc_handles.release(handle);
    return {0, 0, EBUSY};
  }
  shared.xrc_handles[handle].qpn.store(qpn);
  return {handle, qp_index(qpn), 0};
}

Closed close_xrc_qp(Process& process, std::uint32_t handle, std::uint32_t index) {
  SharedState& shared = process.shared();
  QpRecord& qp = shared.qps[index];
  const Allocation guard(process);  // keeps other handles from being opened or closed meanwhile
  if (!guard.held()) return Closed::no;
  const FavouredHold responder(qp.responder, Place::responder);
  if (!responder.held()) return Closed::no;
  const Hold queue(qp.queue);
  if (!queue.held()) return Closed::no;
  XrcHandleRecord& mine = shared.xrc_handles[handle];
  mine.qpn.store(0);
  set_pending(process, mine.owner.load(), mine.events, 0);
  for (const XrcHandleRecord& other : in_use(shared.xrc_handles, shared.uses.xrc_handles)) {
    if (other.claimed == 0 || other.qpn.load() != qp.qpn.load()) continue;
    qp.owner.store(other.owner.load());
    return Closed::others_have_it;
  }
  set_state(qp, IBV_QPS_RESET);
  set_number(qp, 0);
  return Closed::was_last;
}

void release_xrc_handle(Process& process, std::uint32_t handle) {
  release_record(process, [&process, handle] {
    process.shared().xrc_handles[handle].claimed = 0;
    process.shared().uses.xrc_handles.release(handle);
  });
}

}  // namespace hbmwire::emulation::nic
