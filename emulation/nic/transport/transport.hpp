// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

class Process;
class Sender;

/// Attempts one request with the sender's mutex held. Called again when it said to wait.
using Execute = Outcome (*)(Process&, Sender&, const Request&);

Outcome execute_rc(Process& process, Sender& sender, const Request& request);

/// IBV_WR_BIND_MW and IBV_WR_LOCAL_INV, whatever the transport. The caller is in no Activity.
Outcome execute_local(Process& process, Sender& sender, const Request& request);

Outcome execute_uc(Process& process, Sender& sender, const Request& request);
Outcome execute_ud(Process& process, Sender& sender, const Request& request);
Outcome execute_xrc(Process& process, Sender& sender, const Request& request);

/// Null for a QP type the NIC does not have: creation fails with EOPNOTSUPP.
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
