// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/rdma_cm/cm_lock.hpp"

/// What an id says of its path, and how a queue pair is to be set for it.
namespace hbmwire::emulation::nic {

/// The only partition that there is.
inline constexpr std::uint16_t kDefaultPkey = 0xffff;

ib_uverbs_ah_attr address_handle_of(const CmId& id);

/// Attributes and mask for a move of the id's queue pair to `state`; 0 or an errno.
int init_qp_attributes(CmId& id, std::uint32_t state, ib_uverbs_qp_attr& attributes);

/// Paths that are known: 0 or 1.
std::uint32_t count_paths(const CmId& id);

ib_user_path_rec path_of(const CmId& id);

/// The same as the 64 bytes that InfiniBand's subnet administration sends.
ib_path_rec_data packed_path_of(const CmId& id);

}  // namespace hbmwire::emulation::nic
