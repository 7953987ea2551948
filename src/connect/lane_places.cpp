// SPDX-License-Identifier: MIT
#include "connect/lane_places.hpp"

#include <algorithm>
#include <cstddef>

#include "wire/endpoint_offer.hpp"

namespace hbmwire::detail {

std::vector<std::uint8_t> lane_places(const std::vector<bool>& up,
                                      std::span<const std::uint8_t> theirs) {
  const bool any = std::ranges::find(up, true) != up.end();
  std::vector<std::uint8_t> left;
  for (std::size_t place = 0; place < up.size(); ++place) {
    if (up[place] || !any) left.push_back(static_cast<std::uint8_t>(place));
  }
  std::vector<std::uint8_t> places;
  for (const std::uint8_t same : theirs) {
    if (left.empty()) break;
    auto lane = std::ranges::find(left, same);
    // Prefers a NIC that no lane of the peer has, then the last one.
    const auto is_free = [&](std::uint8_t place) {
      return std::ranges::find(theirs, place) == theirs.end();
    };
    if (lane == left.end()) lane = std::ranges::find_if(left, is_free);
    if (lane == left.end()) --lane;
    places.push_back(*lane);
    left.erase(lane);
  }
  places.insert(places.end(), left.begin(), left.end());
  if (places.size() > wire::kMostRails) places.resize(wire::kMostRails);
  return places;
}

}  // namespace hbmwire::detail
