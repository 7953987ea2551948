// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

namespace hbmwire::emulation::nic {

/// Whether a QP of `type` may go from one state to another with the attributes that `mask` names:
/// the move exists, nothing it requires is missing, nothing is there that it does not take.
bool is_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace hbmwire::emulation::nic
