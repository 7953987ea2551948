// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <type_traits>

#include "hbmwire/endpoint.hpp"

#include "base/internals.hpp"

namespace hbmwire::detail {

/// The contents of a RemoteRegion, which are in it as bytes, so that a put reads them without a
/// pointer to follow and programs can't write them.
struct RemoteRegionState {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  std::uint32_t connection = 0;  // of the process' connections, which one it belongs to
  Access access = Access::none;
  MemoryType type = MemoryType::host;
  Path path = Path::host;
  std::uint8_t rails = 0;  // which further NICs have it, in bits from the lowest on
  std::uint32_t remote_key = 0;
  std::array<std::uint32_t, 3> rail_keys{};  // of `rails`
  std::uint64_t token = 0;                   // MemoryKeyInfo::token
  std::uint32_t shared = 0;                  // Neighbour::find(); 0: this CPU does not reach it

  [[nodiscard]] static RemoteRegionState& of(RemoteRegion& region) noexcept;
  [[nodiscard]] static const RemoteRegionState& of(const RemoteRegion& region) noexcept;

  [[nodiscard]] RemoteRegion to_region() const noexcept {
    RemoteRegion region;
    of(region) = *this;
    return region;
  }
};

// An array of bytes holds any object of a type that needs no constructor, [intro.object].
static_assert(std::is_trivially_copyable_v<RemoteRegionState> &&
              sizeof(RemoteRegionState) <= sizeof(RemoteRegion) &&
              alignof(RemoteRegionState) <= alignof(RemoteRegion));

inline RemoteRegionState& RemoteRegionState::of(RemoteRegion& region) noexcept {
  return *std::launder(reinterpret_cast<RemoteRegionState*>(Internals::state(region).data()));
}

inline const RemoteRegionState& RemoteRegionState::of(const RemoteRegion& region) noexcept {
  return *std::launder(reinterpret_cast<const RemoteRegionState*>(Internals::state(region).data()));
}

/// Null: a slice of no region.
[[nodiscard]] inline const RemoteRegionState* remote_state_of(const RemoteSlice& slice) noexcept {
  return slice.region == nullptr ? nullptr : &RemoteRegionState::of(*slice.region);
}

/// In `connection` besides its number: of memory that engines copy, this process' or the peer's.
inline constexpr std::uint32_t kByEngine = 1U << 31U;

[[nodiscard]] inline bool is_by_engine(const RemoteRegionState& region) noexcept {
  return (region.connection & kByEngine) != 0;
}

}  // namespace hbmwire::detail
