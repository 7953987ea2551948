// SPDX-License-Identifier: MIT
#pragma once

#include "tools/emulate/file_lock.hpp"
#include "tools/emulate/namespaces.hpp"

namespace hbmwire::tools::emulate {

/// Where namespaces are forbidden: makes the nodes in the real /dev, each a clone of /dev/null, and
/// leaves alone what is there. The result, inherited by COMMAND and its children, keeps them; it is
/// empty when all were there already.
Result<Fd> make_host_nodes(const Hardware& hardware);

/// Removes the nodes that were made, unless another emulated world still needs them (then false).
bool remove_host_nodes_if_unused();

}  // namespace hbmwire::tools::emulate
