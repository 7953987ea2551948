// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <type_traits>

#include "hbmwire/endpoint.hpp"

#include "base/internals.hpp"

namespace hbmwire::detail {

/// The contents of a RemoteRegion. They are stored in it as bytes: a put reads them without
/// following a pointer, and programs cannot change them.
struct RemoteRegionState {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  std::uint32_t connection = 0;  // the number of the connection that it belongs to, within the
                                 // process
  Access access = Access::none;
  MemoryType type = MemoryType::host;
  Path path = Path::host;
  std::uint8_t rails = 0;  // bits of the further NICs that have it, from the lowest bit on
  std::uint32_t remote_key = 0;
  std::array<std::uint32_t, 3> rail_keys{};  // keys of `rails`
  std::uint64_t token = 0;                   // MemoryKeyInfo::token
  std::uint32_t shared = 0;                  // as Neighbour::find() gives it; 0: this CPU does not
                                             // reach the memory

  [[nodiscard]] static RemoteRegionState& of(RemoteRegion& region) noexcept;
  [[nodiscard]] static const RemoteRegionState& of(const RemoteRegion& region) noexcept;

  [[nodiscard]] RemoteRegion to_region() const noexcept {
    RemoteRegion region;
    of(region) = *this;
    return region;
  }
};

// An array of bytes can hold an object of an implicit-lifetime type, [intro.object].
static_assert(std::is_trivially_copyable_v<RemoteRegionState> &&
              sizeof(RemoteRegionState) <= sizeof(RemoteRegion) &&
              alignof(RemoteRegionState) <= alignof(RemoteRegion));

inline RemoteRegionState& RemoteRegionState::of(RemoteRegion& region) noexcept {
  return *std::launder(reinterpret_cast<RemoteRegionState*>(Internals::state(region).data()));
}

inline const RemoteRegionState& RemoteRegionState::of(const RemoteRegion& region) noexcept {
  return *std::launder(reinterpret_cast<const RemoteRegionState*>(Internals::state(region).data()));
}

/// Null for a slice of no region.
[[nodiscard]] inline const RemoteRegionState* remote_state_of(const RemoteSlice& slice) noexcept {
  return slice.region == nullptr ? nullptr : &RemoteRegionState::of(*slice.region);
}

/// A flag in `connection`, beside the number: engines of this process or of the peer copy the
/// memory.
inline constexpr std::uint32_t kByEngine = 1U << 31U;

[[nodiscard]] inline bool is_by_engine(const RemoteRegionState& region) noexcept {
  return (region.connection & kByEngine) != 0;
}

}  // namespace hbmwire::detail
