// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/abi/layout.hpp"
#include "emulation/nic/abi/provider_abi.hpp"

namespace hbmwire::emulation::nic::abi {

/// The libibverbs of this process. The plugin is not linked with it. The names and versions of its
/// private functions contain N, so the loader would refuse a plugin that is linked with another N.
/// Instead the plugin looks these functions up when it is loaded.
struct Libibverbs {
  const Layout* layout = nullptr;
  std::size_t extended_qp_bytes = 0;  // sizeof(ibv_qp_ex) of the loaded libibverbs

  void (*register_driver)(const Driver*) = nullptr;
  void* (*init_and_alloc_context)(ibv_device*, int cmd_fd, std::size_t size,
                                  verbs_context* offset_in_it, std::uint32_t driver_id) = nullptr;
  void (*uninit_context)(verbs_context*) = nullptr;
  void (*set_ops)(verbs_context*, const Entry*) = nullptr;
};

/// Returns false if the process has no libibverbs, or one that the plugin does not know. It then
/// has printed a sentence to stderr, and the plugin must do nothing.
bool find_libibverbs();

/// May be called after find_libibverbs() has succeeded.
const Libibverbs& libibverbs();

/// Makes ibv_qp_to_qp_ex() return the handle. That function checks a bit that follows the functions
/// in ibv_qp_ex, and their number depends on the loaded libibverbs.
void mark_extended(QueuePair& qp);

}  // namespace hbmwire::emulation::nic::abi
