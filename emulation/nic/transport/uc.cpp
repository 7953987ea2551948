// SPDX-License-Identifier: MIT
#include "emulation/common/fault_step.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/transport/attempt.hpp"
#include "emulation/nic/transport/counting.hpp"
#include "emulation/nic/transport/transport.hpp"

/// Unreliable connections. The responder sends nothing back, so the requester learns only of its
/// own errors. A message is dropped if no receive is posted, a key is wrong or the responder is not
/// there. If a receive is too small or its key is wrong, the receive fails on the responder's side.
namespace hbmwire::emulation::nic {

Outcome execute_uc(Process& process, Sender& sender, const Request& request) {
  const std::uint32_t dest_qpn = sender.connection.dest_qpn;
  QpRecord& responder = process.shared().qps[qp_index(dest_qpn)];
  Attempt attempt(process, sender, request, responder, dest_qpn);
  if (const ibv_wc_status status = attempt.gather(); status != IBV_WC_SUCCESS)
    return Outcome::done(status);
  const Outcome sent = Outcome::done(IBV_WC_SUCCESS, attempt.bytes());
  if (dest_qpn == 0 || responder.qpn.load() != dest_qpn || !process.alive(responder.owner.load())) {
    count_unacknowledged(process, sender, 0, request, sent);
    return sent;
  }
  fault_step("located");
  const FavouredHold guard(responder.responder, Place::responder);
  fault_step("responder_locked");
  const bool arrives = guard.held() && responder.type == IBV_QPT_UC && attempt.reachable();
  count_unacknowledged(process, sender, arrives ? responder.port : 0, request, sent);
  if (arrives && attempt.run(receives_of(process.shared(), responder)).wait != Wait::none)
    count(process, responder.port, PortCounter::out_of_buffer);
  return sent;
}

}  // namespace hbmwire::emulation::nic
