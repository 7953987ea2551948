// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/tool/file_lock.hpp"
#include "emulation/tool/namespaces.hpp"

namespace hbmwire::emulation::tool {

/// For machines that forbid namespaces: makes the device nodes in the real /dev, each as a clone of
/// /dev/null, and leaves existing ones alone. The result keeps the nodes; COMMAND and its children
/// inherit it. It is empty if all nodes existed already.
Result<Fd> make_host_nodes(const Hardware& hardware);

/// Removes the nodes that were made. Returns false if another emulated world still needs them.
bool remove_host_nodes_if_unused();

}  // namespace hbmwire::emulation::tool
