// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/rdma_cm/address.hpp"
#include "emulation/nic/rdma_cm/cm_lock.hpp"

namespace hbmwire::emulation::nic {

/// Gives the id the port of its source address, or any free one if that is 0. Returns 0 or the
/// kernel's errno. For a conflict that is EADDRNOTAVAIL instead of EADDRINUSE if either side has
/// the wildcard address.
int take_port(CmTables& tables, CmId& id);

/// Whether an id that shares its port by RDMA_OPTION_ID_REUSEADDR may listen. Returns 0 or an
/// errno.
int check_listen(const CmTables& tables, const CmId& id);

}  // namespace hbmwire::emulation::nic
