// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "hbmwire/endpoint.hpp"

namespace hbmwire::detail {

/// Until when an endpoint with these options, or a transfer of it, has ended once it is ending:
/// EndpointOptions::peer_timeout bounds that. The hour is for the case that it does not.
[[nodiscard]] inline Deadline longest_end(const EndpointOptions& options) noexcept {
  constexpr auto kMore = std::chrono::hours(1);
  const auto bound = Deadline::later(Deadline::Clock::now(), options.peer_timeout);
  return Deadline(Deadline::later(bound, kMore));
}

}  // namespace hbmwire::detail
