// SPDX-License-Identifier: MIT
#include "emulation/nic/transport/reliable.hpp"

/// Extended reliable connections (IBTA vol. 1, annex A14). They work as RC (rc.cpp has the table of
/// errors), but one connection leads to a whole node. Every request, also RDMA and atomics, names
/// an SRQ of the responder's domain. The SRQ determines the process, the receives, the completion
/// queue and the PD for keys.
///
///   no such SRQ, or one of another domain         REM_INV_REQ_ERR   responder: QP_REQ_ERR, ERR
namespace hbmwire::emulation::nic {
namespace {

std::optional<ReceiveSource> named_srq(SharedState& shared, QpRecord& responder,
                                       const Request& request) {
  const std::uint32_t number = request.remote_srqn;
  const std::uint32_t index = qp_index(number);
  const SrqRecord& srq = shared.srqs[index];
  if (number == 0 || srq.number.load() != number) return std::nullopt;
  if (srq.type != IBV_SRQT_XRC || srq.xrcd != responder.xrcd) return std::nullopt;
  return ReceiveSource{responder, index, srq.cq, {srq.owner.load(), srq.pd}, number};
}

}  // namespace

Outcome execute_xrc(Process& process, Sender& sender, const Request& request) {
  // The SRQs of a dead process must go, although the QP stays while others have it open.
  const SrqRecord& srq = process.shared().srqs[qp_index(request.remote_srqn)];
  if (srq.number.load() != 0) {
    if (const std::uint32_t owner = srq.owner.load(); !process.alive(owner)) process.reap(owner);
  }
  return execute_reliable(process, sender, request, IBV_QPT_XRC_RECV, named_srq);
}

}  // namespace hbmwire::emulation::nic
