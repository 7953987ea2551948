// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/transport/reliable.hpp"
#include "emulation/nic/transport/transport.hpp"

/// Reliable connections. Errors are those of the InfiniBand specification, vol. 1, section 9.9:
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
  const SourceOf own = [](SharedState& shared, QpRecord& responder, const Request&) {
    return std::optional(receives_of(shared, responder));
  };
  return execute_reliable(process, sender, request, IBV_QPT_RC, own);
}

}  // namespace hbmwire::emulation::nic
