// SPDX-License-Identifier: MIT
#include "emulation/nic/transport/reliable.hpp"

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/transport/attempt.hpp"
#include "emulation/nic/transport/counting.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Whether the QP still has that number and a living owner. Reaps a dead owner: an XRC_RECV QP then
/// passes to another process that has it open.
bool is_there(Process& process, const QpRecord& qp, std::uint32_t qpn) {
  if (qpn == 0 || qp.qpn.load() != qpn) return false;
  const std::uint32_t owner = qp.owner.load();
  if (process.alive(owner)) return true;
  process.reap(owner);
  return qp.qpn.load() == qpn && process.alive(qp.owner.load());
}

}  // namespace

Outcome execute_reliable(Process& process, Sender& sender, const Request& request,
                         ibv_qp_type responder_type, SourceOf source_of) {
  const std::uint32_t dest_qpn = sender.connection.dest_qpn;
  QpRecord& responder = process.shared().qps[qp_index(dest_qpn)];
  Attempt attempt(process, sender, request, responder, dest_qpn);
  if (const ibv_wc_status status = attempt.gather();
      status != IBV_WC_SUCCESS && !(status == IBV_WC_LOC_PROT_ERR && attempt.loses_answer())) {
    return Outcome::done(status);
  }
  if (!is_there(process, responder, dest_qpn)) return {Wait::unreachable};
  fault_step("located");
  const FavouredHold guard(responder.responder, Place::responder);
  if (!guard.held()) return {Wait::unreachable};
  fault_step("responder_locked");
  if (attempt.traits().consumes_receive) prefetch_receive(process, responder);
  const bool taken = responder.type == static_cast<std::uint32_t>(responder_type) &&
                     attempt.reachable() && responder.expected_psn == sender.connection.next_psn;
  if (!taken) {
    responder.sender_waits.store(1);  // modify_qp takes the lock, sees this and wakes the sender
    return {Wait::unreachable};
  }
  const std::optional<ReceiveSource> source = source_of(process.shared(), responder, request);
  const Outcome outcome =
      source ? attempt.run(*source)
             : attempt.fail_responder(IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
  if (request.repeats) return outcome;  // it was counted the first time
  if (outcome.wait == Wait::none && outcome.status == IBV_WC_SUCCESS) attempt.count_packets();
  count_outcome(process, sender, responder.port, request, outcome);
  return outcome;
}

}  // namespace hbmwire::emulation::nic
