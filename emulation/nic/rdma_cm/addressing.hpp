// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/rdma_cm/cm.hpp"

/// Gives an id its addresses, its NIC and its route. CmLock is held. Functions return 0 or the
/// kernel's errno.
namespace hbmwire::emulation::nic {

int bind_address(Cm& cm, CmId& id, const CmAddress& address);

/// The result comes as an event: ADDR_RESOLVED or ADDR_ERROR.
int resolve_address(Cm& cm, CmId& id, const CmAddress* source, const CmAddress& destination,
                    std::uint32_t timeout_ms);

/// Tries again to resolve an address: the node that has it may have joined meanwhile.
void retry_resolution(Cm& cm, CmId& id);

int resolve_route(Cm& cm, CmId& id);
int listen(Cm& cm, CmId& id, std::uint32_t backlog);

/// rdma_set_option, with `value` as the application passed it.
int set_option(Cm& cm, CmId& id, std::uint32_t level, std::uint32_t name, const void* value,
               std::size_t size);

}  // namespace hbmwire::emulation::nic
