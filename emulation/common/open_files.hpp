// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {

/// Whether any process that this one may inspect has the file open. A descriptor that is on its way
/// through a socket is not found.
bool is_open_in_a_process(std::uint64_t device, std::uint64_t inode);

}  // namespace hbmwire::emulation
