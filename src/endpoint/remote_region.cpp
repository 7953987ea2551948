// SPDX-License-Identifier: MIT
#include "endpoint/remote_region_state.hpp"

namespace hbmwire {

using detail::RemoteRegionState;

std::uint64_t RemoteRegion::length_bytes() const noexcept {
  return RemoteRegionState::of(*this).length_bytes;
}

Access RemoteRegion::access() const noexcept { return RemoteRegionState::of(*this).access; }

MemoryType RemoteRegion::type() const noexcept { return RemoteRegionState::of(*this).type; }

Path RemoteRegion::path() const noexcept { return RemoteRegionState::of(*this).path; }

}  // namespace hbmwire
