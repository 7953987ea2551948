// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/window.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/transport/transport.hpp"

/// Requests that send no packet. They take their turn in the send queue like all others, so that a
/// SEND after a bind finds the window bound. Their error is IBTA's "memory management operation
/// error" (vol. 1, 11.6.2).
namespace hbmwire::emulation::nic {

Outcome execute_local(Process& process, Sender& sender, const Request& request) {
  QpRecord& qp = sender.record();
  const WindowChange change = request.opcode == IBV_WR_BIND_MW
                                  ? bind_window(process, qp, request.binding)
                                  : invalidate_here(process, qp, request.invalidate_key);
  if (change == WindowChange::held) return {Wait::unreachable};
  return Outcome::done(change == WindowChange::done ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR);
}

}  // namespace hbmwire::emulation::nic
