// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

class Process;
class Sender;

/// Attempts a request; the sender's mutex is held. If the outcome is to wait, it is called again
/// later.
using Execute = Outcome (*)(Process&, Sender&, const Request&);

Outcome execute_rc(Process& process, Sender& sender, const Request& request);

/// Executes IBV_WR_BIND_MW and IBV_WR_LOCAL_INV, for all transports. The caller is not inside an
/// Activity.
Outcome execute_local(Process& process, Sender& sender, const Request& request);

Outcome execute_uc(Process& process, Sender& sender, const Request& request);
Outcome execute_ud(Process& process, Sender& sender, const Request& request);
Outcome execute_xrc(Process& process, Sender& sender, const Request& request);

/// Returns null for a QP type that the NIC does not have: creation fails with EOPNOTSUPP.
constexpr Execute transport_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return execute_rc;
    case IBV_QPT_UC:
      return execute_uc;
    case IBV_QPT_UD:
      return execute_ud;
    case IBV_QPT_XRC_SEND:
      return execute_xrc;
    default:
      return nullptr;
  }
}

}  // namespace hbmwire::emulation::nic
