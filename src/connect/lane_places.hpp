// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hbmwire::detail {

/// On which NICs an endpoint's lanes lie: places among its worker's NICs, its own lanes' first,
/// then the rails', wire::kMostRails at most.
///
/// `up`: of each NIC whether it can be used; none: all are tried. `theirs`: the peer's places,
/// where they are known. The k-th lanes of both ends go together, so that each gets the same NIC as
/// the peer's, as far as there is one: two nodes may have a network for each. What takes the place
/// of one that is missing has another network, perhaps.
[[nodiscard]] std::vector<std::uint8_t> lane_places(const std::vector<bool>& up,
                                                    std::span<const std::uint8_t> theirs);

}  // namespace hbmwire::detail
