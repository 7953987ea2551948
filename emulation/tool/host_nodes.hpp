// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/tool/file_lock.hpp"
#include "emulation/tool/namespaces.hpp"

namespace hbmwire::emulation::tool {

/// Where namespaces are forbidden: makes the nodes in the real /dev, each a clone of /dev/null, and
/// leaves alone what is there. The result, inherited by COMMAND and its children, keeps them; it is
/// empty when all were there already.
Result<Fd> make_host_nodes(const Hardware& hardware);

/// Removes the nodes that were made, unless another emulated world still needs them (then false).
bool remove_host_nodes_if_unused();

}  // namespace hbmwire::emulation::tool
