// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/qp_table.hpp"

#include <infiniband/verbs.h>

#include <cerrno>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/state/allocation.hpp"
#include "emulation/nic/state/receive_ring.hpp"

namespace hbmwire::emulation::nic {

std::uint32_t claim_qp(Process& process, const QpRequest& request) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) {
    errno = EBUSY;
    return 0;
  }
  if (!has_room(process, shared.qps, shared.uses.qps, request.room)) {
    errno = ENOMEM;
    return 0;
  }
  const std::uint32_t index = shared.uses.qps.claim();
  QpRecord& qp = shared.qps[index];
  if (index == 0 ||
      !make_receives(process, qp.receives, request.receive_depth, request.receive_sge)) {
    if (index != 0) shared.uses.qps.release(index);
    errno = ENOMEM;
    return 0;
  }
  qp.posted = qp.receives;  // the other end of the same ring
  qp.owner.store(process.slot());
  qp.claimed = 1;
  fault_step("claimed");
  qp.type = request.type;
  qp.nic = request.room.nic;
  set_state(qp, IBV_QPS_RESET);
  qp.sends_parked.store(0);
  qp.sender_waits.store(0);
  qp.next_receive = 0;
  qp.sends_released.store(0);
  qp.pd = request.pd;
  qp.send_cq = request.send_cq;
  qp.recv_cq = request.recv_cq;
  qp.events = request.events;
  qp.srq = request.srq;
  qp.xrcd = request.xrcd;
  qp.scatters = request.scatters ? 1 : 0;
  qp.dest_qpn.store(0);
  qp.access = 0;
  qp.qkey = 0;
  qp.established = 0;
  qp.last_wqe = 0;
  qp.taken.valid.store(0);
  qp.port = 0;
  qp.lid = 0;
  qp.traffic = {};
  qp.attributes = {};
  set_number(qp, make_qpn(index, ++qp.generation));
  return index;
}

bool stop_qp(Process& process, std::uint32_t index) {
  QpRecord& qp = process.shared().qps[index];
  const FavouredHold responder(qp.responder, Place::responder);
  if (!responder.held()) return false;
  const Hold queue(qp.queue);
  if (!queue.held()) return false;
  set_state(qp, IBV_QPS_RESET);
  set_pending(process, qp.owner.load(), qp.events, 0);
  set_number(qp, 0);
  return true;
}

void release_qp(Process& process, std::uint32_t index) {
  release_record(process, [&process, index] {
    QpRecord& qp = process.shared().qps[index];
    free_receives(process, qp.receives);
    fault_step("released");
    qp.claimed = 0;
    process.shared().uses.qps.release(index);
  });
}

}  // namespace hbmwire::emulation::nic
