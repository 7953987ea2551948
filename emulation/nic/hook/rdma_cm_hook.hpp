// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::emulation::nic {

/// Redirects librdmacm's own imports of open(), fstat(), write() and close(), by which it talks to
/// the kernel about /dev/infiniband/rdma_cm. Calls for that file are answered here; all others go
/// to the C library.
///
/// It is called when the plugin is loaded. librdmacm may be loaded already, or be loaded later by
/// dlopen(). In the latter case it asks libibverbs for the devices before it opens its file.
/// libibverbs calls opendir() then, so that import is redirected too, to look for librdmacm again.
void install_rdma_cm_hook();

}  // namespace hbmwire::emulation::nic
