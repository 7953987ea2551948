// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hbmwire::detail {

/// Chooses the NICs for an endpoint's lanes. Returns places among its worker's NICs: first that of
/// its own lanes, then those of the rails, wire::kMostRails at most.
///
/// `up`: whether each NIC can be used; if none can, all are tried. `theirs`: the peer's places, if
/// they are known. The k-th lanes of both ends belong together. Each gets a NIC at the same place
/// as the peer's, if there is one, since two nodes may have a separate network for each place. A
/// lane without such a NIC gets another one, which may be on another network.
[[nodiscard]] std::vector<std::uint8_t> lane_places(const std::vector<bool>& up,
                                                    std::span<const std::uint8_t> theirs);

}  // namespace hbmwire::detail
