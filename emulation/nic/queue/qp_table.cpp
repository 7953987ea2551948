// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/qp_table.hpp"

#include <infiniband/verbs.h>

#include <cerrno>
#include <mutex>

#include "emulation/nic/state/receive_ring.hpp"

namespace hbmwire::emulation::nic {

std::uint32_t claim_qp(Process& process, const QpRequest& request) {
  SharedState& shared = process.shared();
  const std::lock_guard guard(shared.header.allocation);
  std::uint32_t& next = shared.header.next_qp;
  for (std::uint32_t tried = 0; tried < kMaxQps; ++tried) {
    const std::uint32_t index = next++ % kMaxQps;
    QpRecord& qp = shared.qps[index];
    if (index < kFirstQp || index == kMaxQps - 1 || qp.claimed != 0) continue;
    if (!make_receives(process, qp.receives, request.receive_depth, request.receive_sge)) break;
    if (qp.locks_made == 0) {
      qp.responder.initialise();
      qp.queue.initialise();
      qp.locks_made = 1;
    }
    qp.claimed = 1;
    qp.owner.store(process.slot());
    qp.type = request.type;
    qp.state.store(IBV_QPS_RESET);
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
    qp.dest_qpn.store(0);
    qp.access = 0;
    qp.qkey = 0;
    qp.established = 0;
    qp.port = 0;
    qp.traffic = {};
    qp.attributes = {};
    qp.qpn.store(make_qpn(index, ++qp.generation));  // last: from here on peers see it
    return index;
  }
  errno = ENOMEM;
  return 0;
}

void stop_qp(Process& process, std::uint32_t index) {
  QpRecord& qp = process.shared().qps[index];
  const std::lock_guard responder(qp.responder);
  const std::lock_guard queue(qp.queue);
  qp.state.store(IBV_QPS_RESET);
  qp.events.pending = 0;
  qp.qpn.store(0);
}

void release_qp(Process& process, std::uint32_t index) {
  SharedState& shared = process.shared();
  QpRecord& qp = shared.qps[index];
  const std::lock_guard guard(shared.header.allocation);
  free_receives(process, qp.receives);
  qp.claimed = 0;
}

}  // namespace hbmwire::emulation::nic
