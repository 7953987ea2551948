// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/rdma_cm/cm_lock.hpp"

/// The path of an id, and the queue pair attributes for it.
namespace hbmwire::emulation::nic {

/// The only partition.
inline constexpr std::uint16_t kDefaultPkey = 0xffff;

ib_uverbs_ah_attr address_handle_of(const CmId& id);

/// The attributes and the mask for moving the id's queue pair to `state`. Returns 0 or an errno.
int init_qp_attributes(CmId& id, std::uint32_t state, ib_uverbs_qp_attr& attributes);

/// The number of known paths: 0 or 1.
std::uint32_t count_paths(const CmId& id);

ib_user_path_rec path_of(const CmId& id);

/// As path_of(), as the 64 bytes that InfiniBand's subnet administration sends.
ib_path_rec_data packed_path_of(const CmId& id);

}  // namespace hbmwire::emulation::nic
