// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

/// Ways to copy large ranges that do not overlap. All stores are visible to other processors before
/// any store that follows the call.
namespace hbmwire::emulation::nic {

/// Up to here a range is small: both ends of it fit the cache next to a core.
inline constexpr std::size_t kSmall = 16384;

/// For small ranges.
void copy_small(void* to, const void* from, std::size_t bytes);

/// For what is in the caches, or is to be.
void copy_through_caches(void* to, const void* from, std::size_t bytes);

/// For what nobody is going to look at soon.
void copy_past_caches(void* to, const void* from, std::size_t bytes);

}  // namespace hbmwire::emulation::nic
