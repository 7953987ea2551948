// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "hbmwire/endpoint.hpp"

namespace hbmwire::detail {

/// By when an ending endpoint with these options, and its transfers, must have ended.
/// EndpointOptions::peer_timeout bounds the end; the hour on top only bounds the wait if there is a
/// bug.
[[nodiscard]] inline Deadline longest_end(const EndpointOptions& options) noexcept {
  constexpr auto kMore = std::chrono::hours(1);
  const auto bound = Deadline::later(Deadline::Clock::now(), options.peer_timeout);
  return Deadline(Deadline::later(bound, kMore));
}

}  // namespace hbmwire::detail
