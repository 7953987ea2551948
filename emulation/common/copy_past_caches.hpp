// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

/// Copies ranges that do not overlap, for data that is not read again soon. All stores of a copy
/// are visible to other processors before any store that follows the call.
namespace hbmwire::emulation {

void copy_past_caches(void* to, const void* from, std::size_t bytes);

/// Stores as a device's engine does in the device's own memory: large ranges bypass the CPU's
/// caches. On hardware the caches are not involved, and here such data would displace other memory
/// from them.
void store_by_engine(void* to, const void* from, std::size_t bytes);

}  // namespace hbmwire::emulation
