// SPDX-License-Identifier: MIT
#include <filesystem>
#include <set>
#include <span>
#include <system_error>
#include <vector>

#include "emulation/common/fault_step.hpp"
#include "emulation/common/posted_writes.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/state/allocation.hpp"
#include "emulation/nic/state/counter_files.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/state/receive_ring.hpp"
#include "emulation/nic/state/ring_heap.hpp"
#include "emulation/nic/state/scattered.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// As in Linux, an XRC_RECV QP lives on with another process that has it open. Returns whether
/// there is one.
bool pass_on(SharedState& shared, QpRecord& qp) {
  const std::uint32_t qpn = qp.qpn.load();
  if (qp.type != IBV_QPT_XRC_RECV || qpn == 0) return false;
  for (const XrcHandleRecord& other : in_use(shared.xrc_handles, shared.uses.xrc_handles)) {
    if (other.claimed == 0 || other.qpn.load() != qpn) continue;
    qp.owner.store(other.owner.load());
    return true;
  }
  return false;
}

/// Makes writes arrive that NICs have posted for a dead process, on every card.
void push_posted(const std::filesystem::path& fabric, std::span<const std::uint32_t> nics) {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(fabric / "nodes", error), end; at != end;
       at.increment(error)) {
    // The files are nodes/<node>/<card>/posted; a node's sysfs tree is large and has none.
    if (at.depth() == 1 && at->path().filename() == "sys") at.disable_recursion_pending();
    if (at.depth() != 2 || at->path().filename() != "posted") continue;
    const auto posted = PostedWrites::open(at->path());
    for (const std::uint32_t nic : nics)
      if (posted) posted->arrive(nic);
  }
}

}  // namespace

bool Process::reap(std::uint32_t slot) {
  if (slot == slot_) return false;
  const Allocation guard(*this);
  if (!guard.held()) return false;
  // Checks again with the lock held that guards the claiming of slots: a new process may have
  // claimed this slot by now.
  return shared_->processes[slot].claimed.load() != 0 && !lock_is_held(slot) && reap_locked(slot);
}

void Process::reap_keys(std::uint32_t slot) {
  TableUses& uses = shared_->uses;
  std::vector<std::uint32_t> posting;
  for (MrRecord& mr : in_use(shared_->mrs, uses.mrs)) {
    if (mr.claimed == 0 || mr.owner.load() != slot) continue;
    if (mr.posted_fd >= 0) posting.push_back(mr.nic);
    mr.key.store(0);
    mr.claimed = 0;
    uses.mrs.release(index_in(shared_->mrs, mr));
  }
  for (MwRecord& mw : in_use(shared_->mws, uses.mws)) {
    if (mw.claimed == 0 || mw.owner.load() != slot) continue;
    mw.key.store(0);
    mw.mr.store(0);
    mw.claimed = 0;
    uses.mws.release(index_in(shared_->mws, mw));
  }
  if (!posting.empty()) push_posted(world_.fabric, posting);
}

bool Process::reap_queue_pair(QpRecord& qp, std::set<std::uint32_t>& ports) {
  // Waits until an initiator that executes a request on the QP is through.
  const FavouredHold responder(qp.responder, Place::responder);
  if (!responder.held()) return false;
  const Hold queue(qp.queue);
  if (!queue.held()) return false;
  if (collect_traffic(*shared_, qp)) ports.insert({qp.port, qp.traffic.peer_port});
  if (qp.scatters != 0) release_scattered_of(*shared_, {qp.owner.load(), qp.qpn.load()});
  set_state(qp, IBV_QPS_RESET);
  set_number(qp, 0);
  free_receives(*this, qp.receives);
  qp.claimed = 0;
  shared_->uses.qps.release(index_in(shared_->qps, qp));
  return true;
}

bool Process::reap_queue_pairs(std::uint32_t slot) {
  TableUses& uses = shared_->uses;
  for (XrcHandleRecord& handle : in_use(shared_->xrc_handles, uses.xrc_handles)) {
    if (handle.claimed == 0 || handle.owner.load() != slot) continue;
    if (const std::uint32_t qpn = handle.qpn.load(); qpn != 0) {
      const Hold queue(shared_->qps[qp_index(qpn)].queue);
      if (!queue.held()) return false;
      handle.qpn.store(0);
    }
    handle.claimed = 0;
    uses.xrc_handles.release(index_in(shared_->xrc_handles, handle));
  }
  bool all = true;
  std::set<std::uint32_t> ports;  // ports with new counts
  for (QpRecord& qp : in_use(shared_->qps, uses.qps)) {
    if (qp.claimed == 0 || qp.owner.load() != slot || pass_on(*shared_, qp)) continue;
    all = reap_queue_pair(qp, ports) && all;
  }
  for (const std::uint32_t port : ports) publish_counters(world_.fabric, shared_->ports[port]);
  return all;
}

bool Process::reap_queues(std::uint32_t slot) {
  TableUses& uses = shared_->uses;
  for (SrqRecord& srq : in_use(shared_->srqs, uses.srqs)) {
    if (srq.claimed == 0 || srq.owner.load() != slot) continue;
    const Hold queue(srq.mutex);
    if (!queue.held()) return false;
    srq.number.store(0);
    free_receives(*this, srq.receives);
    srq.claimed = 0;
    uses.srqs.release(index_in(shared_->srqs, srq));
  }
  for (CqRecord& cq : in_use(shared_->cqs, uses.cqs)) {
    if (cq.used.load() == 0 || cq.owner.load() != slot) continue;
    const FavouredHold queue(cq.mutex, Place::completing);
    if (!queue.held()) return false;
    cq.used.store(0);
    free_ring(*this, cq.in.ring, cq_ring_bytes(cq.depth), Holds::zeros);
    cq.in.ring = 0;
    uses.cqs.release(index_in(shared_->cqs, cq));
  }
  return true;
}

/// If the reaper dies half way, or finds a lock held by a stopped process, the slot stays claimed
/// and the next reaper goes over it again. The last store to a record frees it. The next holder
/// that inherits Header::allocation looks for rings without a record (rebuild_heap).
bool Process::reap_locked(std::uint32_t slot) {
  reap_keys(slot);
  if (!reap_queue_pairs(slot) || !reap_queues(slot)) return false;
  const Header& header = shared_->header;
  for (XrcdRecord& domain : in_use(shared_->xrcds, shared_->uses.xrcds)) {
    if (domain.owner.load() != slot) continue;
    domain.id.store(0);
    shared_->uses.xrcds.release(index_in(shared_->xrcds, domain));
  }
  for (ContextRecord& context : touched(shared_->contexts, header.next_context)) {
    if (context.claimed.load() != 0 && context.owner == slot) context.claimed.store(0);
  }
  fault_step("reaping");
  if (!reap_connections(*this, slot)) return false;
  std::error_code ignored;
  std::filesystem::remove_all(directory_of(slot), ignored);
  shared_->processes[slot].claimed.store(0);
  return true;
}

}  // namespace hbmwire::emulation::nic
