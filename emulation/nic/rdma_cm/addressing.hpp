// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/rdma_cm/cm.hpp"

/// How an id gets its addresses, its NIC and its route. All return 0 or the kernel's errno; CmLock
/// is held.
namespace hbmwire::emulation::nic {

int bind_address(Cm& cm, CmId& id, const CmAddress& address);

/// The outcome comes as an event: ADDR_RESOLVED or ADDR_ERROR.
int resolve_address(Cm& cm, CmId& id, const CmAddress* source, const CmAddress& destination,
                    std::uint32_t timeout_ms);

/// The node that has the destination may have come since.
void retry_resolution(Cm& cm, CmId& id);

int resolve_route(Cm& cm, CmId& id);
int listen(Cm& cm, CmId& id, std::uint32_t backlog);

/// rdma_set_option: `value` as the application gave it.
int set_option(Cm& cm, CmId& id, std::uint32_t level, std::uint32_t name, const void* value,
               std::size_t size);

}  // namespace hbmwire::emulation::nic
