// SPDX-License-Identifier: MIT
#include <filesystem>
#include <mutex>
#include <system_error>

#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/state/counter_files.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/state/receive_ring.hpp"
#include "emulation/nic/state/ring_heap.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// As Linux keeps it: an XRC_RECV QP stays with whoever else has it open.
bool pass_on(SharedState& shared, QpRecord& qp) {
  const std::uint32_t qpn = qp.qpn.load();
  if (qp.type != IBV_QPT_XRC_RECV || qpn == 0) return false;
  for (const XrcHandleRecord& other : touched(shared.xrc_handles, shared.header.next_xrc_handle)) {
    if (other.claimed == 0 || other.qpn.load() != qpn) continue;
    qp.owner.store(other.owner.load());
    return true;
  }
  return false;
}

}  // namespace

void Process::reap(std::uint32_t slot) {
  if (slot == slot_) return;
  const std::lock_guard guard(shared_->header.allocation);
  // Asked again under the lock under which slots are claimed: a new process may live there by now.
  if (shared_->processes[slot].claimed.load() != 0 && !lock_is_held(slot)) reap_locked(slot);
}

/// Should the reaper die half way, the slot is still claimed and the next one goes over it again; a
/// record is freed by its last store, so that its ring is given back once, or lost.
void Process::reap_locked(std::uint32_t slot) {
  const Header& header = shared_->header;
  for (MrRecord& mr : touched(shared_->mrs, header.next_mr)) {
    if (mr.claimed == 0 || mr.owner.load() != slot) continue;
    mr.key.store(0);
    mr.claimed = 0;
  }
  for (MwRecord& mw : touched(shared_->mws, header.next_mw)) {
    if (mw.claimed == 0 || mw.owner.load() != slot) continue;
    mw.key.store(0);
    mw.mr.store(0);
    mw.claimed = 0;
  }
  for (XrcHandleRecord& handle : touched(shared_->xrc_handles, header.next_xrc_handle)) {
    if (handle.claimed == 0 || handle.owner.load() != slot) continue;
    if (const std::uint32_t qpn = handle.qpn.load(); qpn != 0) {
      const std::lock_guard queue(shared_->qps[qp_index(qpn)].queue);
      handle.qpn.store(0);
    }
    handle.claimed = 0;
  }
  for (QpRecord& qp : touched(shared_->qps, header.next_qp)) {
    if (qp.claimed == 0 || qp.owner.load() != slot || pass_on(*shared_, qp)) continue;
    // An initiator may be at work in it: wait until it is through.
    const std::lock_guard responder(qp.responder);
    const std::lock_guard queue(qp.queue);
    if (collect_traffic(*shared_, qp)) {
      for (const std::uint32_t port : {qp.port, qp.traffic.peer_port})
        publish_counters(world_.fabric, shared_->ports[port]);
    }
    qp.state.store(IBV_QPS_RESET);
    qp.qpn.store(0);
    free_receives(*this, qp.receives);
    qp.claimed = 0;
  }
  for (SrqRecord& srq : touched(shared_->srqs, header.next_srq)) {
    if (srq.claimed == 0 || srq.owner.load() != slot) continue;
    const std::lock_guard queue(srq.mutex);
    srq.number.store(0);
    free_receives(*this, srq.receives);
    srq.claimed = 0;
  }
  for (XrcdRecord& domain : touched(shared_->xrcds, header.next_xrcd)) {
    if (domain.owner.load() == slot) domain.id.store(0);
  }
  for (CqRecord& cq : touched(shared_->cqs, header.next_cq)) {
    if (cq.used.load() == 0 || cq.owner.load() != slot) continue;
    const std::lock_guard queue(cq.mutex);
    cq.used.store(0);
    free_ring(*this, cq.ring, cq.depth * kCqeStride);
    cq.ring = 0;
  }
  for (ContextRecord& context : touched(shared_->contexts, header.next_context)) {
    if (context.claimed.load() != 0 && context.owner == slot) context.claimed.store(0);
  }
  reap_connections(*this, slot);
  std::error_code ignored;
  std::filesystem::remove_all(directory_of(slot), ignored);
  shared_->processes[slot].claimed.store(0);
}

}  // namespace hbmwire::emulation::nic
