// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/xrc.hpp"

#include <cerrno>
#include <mutex>

namespace hbmwire::emulation::nic {
namespace {

bool is_named(const XrcdRecord& domain, const XrcdRequest& request) {
  return domain.id.load() != 0 && request.inode != 0 && domain.inode == request.inode &&
         domain.device == request.device && domain.nic == request.nic;
}

/// With Header::allocation held.
std::uint64_t find_xrcd(SharedState& shared, const XrcdRequest& request) {
  for (const XrcdRecord& domain : touched(shared.xrcds, shared.header.next_xrcd)) {
    if (is_named(domain, request)) return domain.id.load();
  }
  return 0;
}

/// With Header::allocation held; 0 when the table is full.
std::uint32_t claim_handle(Process& process, const EventSource& events) {
  SharedState& shared = process.shared();
  const std::uint32_t index =
      next_free(shared.xrc_handles, shared.header.next_xrc_handle,
                [](const XrcHandleRecord& handle) { return handle.claimed == 0; });
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
  // What a dead process left does not count.
  for (const XrcdRecord& domain : touched(shared.xrcds, shared.header.next_xrcd)) {
    if (is_named(domain, request)) process.reap(domain.owner.load());
  }
  const std::lock_guard guard(shared.header.allocation);
  std::uint64_t id = find_xrcd(shared, request);
  if (request.inode != 0 && id == 0 && !request.may_create) return {0, EAGAIN};
  if (id != 0 && request.must_create) return {0, EINVAL};
  if (id == 0) id = process.new_id();
  const std::uint32_t index =
      next_free(shared.xrcds, shared.header.next_xrcd,
                [](const XrcdRecord& domain) { return domain.id.load() == 0; });
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
  const std::lock_guard guard(process.shared().header.allocation);
  process.shared().xrcds[index].id.store(0);
}

XrcQpClaim open_xrc_qp(Process& process, std::uint64_t xrcd, std::uint32_t qpn,
                       const EventSource& events) {
  SharedState& shared = process.shared();
  QpRecord& qp = shared.qps[qp_index(qpn)];
  if (qpn != 0 && qp.qpn.load() == qpn) process.reap(qp.owner.load());
  const std::lock_guard guard(shared.header.allocation);
  const bool is_there = qpn != 0 && qp.claimed != 0 && qp.qpn.load() == qpn &&
                        qp.type == IBV_QPT_XRC_RECV && qp.xrcd == xrcd;
  if (!is_there) return {0, 0, EINVAL};
  const std::uint32_t handle = claim_handle(process, events);
  if (handle == 0) return {0, 0, ENOMEM};
  const std::lock_guard queue(qp.queue);
  shared.xrc_handles[handle].qpn.store(qpn);
  return {handle, qp_index(qpn), 0};
}

bool close_xrc_qp(Process& process, std::uint32_t handle, std::uint32_t index) {
  SharedState& shared = process.shared();
  QpRecord& qp = shared.qps[index];
  const std::lock_guard guard(shared.header.allocation);  // no other is opened or closed meanwhile
  const std::lock_guard responder(qp.responder);
  const std::lock_guard queue(qp.queue);
  XrcHandleRecord& mine = shared.xrc_handles[handle];
  mine.qpn.store(0);
  mine.events.pending = 0;
  for (const XrcHandleRecord& other : touched(shared.xrc_handles, shared.header.next_xrc_handle)) {
    if (other.claimed == 0 || other.qpn.load() != qp.qpn.load()) continue;
    qp.owner.store(other.owner.load());
    return false;
  }
  qp.state.store(IBV_QPS_RESET);
  qp.qpn.store(0);
  return true;
}

void release_xrc_handle(Process& process, std::uint32_t handle) {
  const std::lock_guard guard(process.shared().header.allocation);
  process.shared().xrc_handles[handle].claimed = 0;
}

}  // namespace hbmwire::emulation::nic
