// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

namespace hbmwire::emulation::nic {

/// Whether a QP of `type` may go from one state to another with the attributes in `mask`: the
/// transition exists, no required attribute is missing and none is given that it does not allow.
bool is_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace hbmwire::emulation::nic
