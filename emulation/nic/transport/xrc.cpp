// SPDX-License-Identifier: MIT
#include "emulation/nic/transport/reliable.hpp"

/// Extended reliable connections (IBTA vol. 1, annex A14): as RC (rc.cpp has the table of errors),
/// but one connection leads to a whole node. Every request, RDMA and atomics too, names an SRQ of
/// the responder's domain: it says which process is meant, whose receives are taken, where they
/// complete, and in which PD keys are looked up.
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
  // Its SRQs go with a process, although the QP stays when others have it open.
  const SrqRecord& srq = process.shared().srqs[qp_index(request.remote_srqn)];
  if (srq.number.load() != 0) {
    if (const std::uint32_t owner = srq.owner.load(); !process.alive(owner)) process.reap(owner);
  }
  return execute_reliable(process, sender, request, IBV_QPT_XRC_RECV, named_srq);
}

}  // namespace hbmwire::emulation::nic
