// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

/// Copies between ranges that do not overlap, for what nobody is going to look at soon. All stores
/// are visible to other processors before any store that follows the call.
namespace hbmwire::emulation {

void copy_past_caches(void* to, const void* from, std::size_t bytes);

/// As a device's engine stores in the device's own memory: large ranges past the CPU's caches,
/// which have no part in that on hardware, and in which they would take other memory's place.
void store_by_engine(void* to, const void* from, std::size_t bytes);

}  // namespace hbmwire::emulation
