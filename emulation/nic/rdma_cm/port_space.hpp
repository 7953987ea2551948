// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/rdma_cm/address.hpp"
#include "emulation/nic/rdma_cm/cm_lock.hpp"

namespace hbmwire::emulation::nic {

/// Gives the id the port that its source address asks for, or any; 0 or the kernel's errno.
/// EADDRNOTAVAIL, and not EADDRINUSE, is what it says when either side has the wildcard address.
int take_port(CmTables& tables, CmId& id);

/// Whether an id that shares its port by RDMA_OPTION_ID_REUSEADDR may listen.
int check_listen(const CmTables& tables, const CmId& id);

}  // namespace hbmwire::emulation::nic
