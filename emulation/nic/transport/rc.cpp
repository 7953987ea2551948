// SPDX-License-Identifier: MIT
#include <mutex>

#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/transport/attempt.hpp"
#include "emulation/nic/transport/counting.hpp"
#include "emulation/nic/transport/transport.hpp"

/// Reliable connections. Errors are those of the InfiniBand
/// specification, vol. 1, section 9.9:
///
///   requester's own key, bounds or right          LOC_PROT_ERR
///   responder's key, bounds, PD or right          REM_ACCESS_ERR    responder: QP_ACCESS_ERR, ERR
///   operation not enabled on the responder's QP   REM_INV_REQ_ERR   responder: QP_REQ_ERR, ERR
///   atomic not aligned                            REM_INV_REQ_ERR   responder: QP_REQ_ERR, ERR
///   receive too small                             REM_INV_REQ_ERR   its receive: LOC_LEN_ERR, ERR
///   receive's key, bounds or right                REM_OP_ERR        its receive: LOC_PROT_ERR, ERR
///   no receive posted                             waits, then RNR_RETRY_EXC_ERR
///   responder not there, not ready, not ours      waits, then RETRY_EXC_ERR
namespace hbmwire::emulation::nic {

Outcome execute_rc(Process& process, Sender& sender, const Request& request) {
  const std::uint32_t dest_qpn = sender.connection.dest_qpn;
  QpRecord& responder = process.shared().qps[qp_index(dest_qpn)];
  Attempt attempt(process, sender, request, responder, dest_qpn);
  if (const ibv_wc_status status = attempt.gather(); status != IBV_WC_SUCCESS)
    return Outcome::done(status);
  if (responder.qpn.load() != dest_qpn || dest_qpn == 0) return {Wait::unreachable};
  if (const std::uint32_t owner = responder.owner.load(); !process.alive(owner)) {
    process.reap(owner);
    return {Wait::unreachable};
  }
  const std::lock_guard guard(responder.responder);
  const bool taken = responder.type == IBV_QPT_RC && attempt.reachable() &&
                     responder.expected_psn == sender.connection.next_psn;
  if (!taken) {
    responder.sender_waits.store(1);  // modify_qp looks at it with the lock held
    return {Wait::unreachable};
  }
  const Outcome outcome = attempt.run(receives_of(process.shared(), responder));
  if (outcome.wait == Wait::none && outcome.status == IBV_WC_SUCCESS) attempt.count_packets();
  count_outcome(process, sender, responder.port, request, outcome);
  return outcome;
}

}  // namespace hbmwire::emulation::nic
