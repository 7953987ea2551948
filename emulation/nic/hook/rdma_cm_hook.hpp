// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::emulation::nic {

/// librdmacm talks to the kernel by open(), fstat(), write() and close() on
/// /dev/infiniband/rdma_cm. Its own imports of these are redirected: that file's are answered here,
/// all others go on.
///
/// Called when the plugin is loaded. librdmacm may be there already, or come later by dlopen(): it
/// asks libibverbs for the devices before it opens its file, and libibverbs' import of opendir(),
/// which it calls then, is redirected to look for it again.
void install_rdma_cm_hook();

}  // namespace hbmwire::emulation::nic
