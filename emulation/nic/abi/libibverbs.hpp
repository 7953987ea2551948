// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/abi/layout.hpp"
#include "emulation/nic/abi/provider_abi.hpp"

namespace hbmwire::emulation::nic::abi {

/// The libibverbs of this process. The plugin is not linked with it, but finds its private
/// functions when it is loaded: their names and versions contain N, so the loader would refuse a
/// plugin linked with one N below a libibverbs of another N.
struct Libibverbs {
  const Layout* layout = nullptr;
  std::size_t extended_qp_bytes = 0;  // its sizeof(ibv_qp_ex)

  void (*register_driver)(const Driver*) = nullptr;
  void* (*init_and_alloc_context)(ibv_device*, int cmd_fd, std::size_t size,
                                  verbs_context* offset_in_it, std::uint32_t driver_id) = nullptr;
  void (*uninit_context)(verbs_context*) = nullptr;
  void (*set_ops)(verbs_context*, const Entry*) = nullptr;
};

/// False when the process has no libibverbs, or one that the plugin does not know: a sentence on
/// stderr says so, and the plugin must do nothing.
bool find_libibverbs();

/// Once it is found.
const Libibverbs& libibverbs();

/// Makes ibv_qp_to_qp_ex() hand out the handle: a bit behind the functions of ibv_qp_ex, as many as
/// the loaded libibverbs has.
void mark_extended(QueuePair& qp);

}  // namespace hbmwire::emulation::nic::abi
