// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/endpoint.hpp"
#include "hbmwire/link.hpp"

#include "verbs/wiring.hpp"

namespace hbmwire::detail {

/// `options`, with options that it leaves open taken from `otherwise`.
[[nodiscard]] LinkOptions merged(const LinkOptions& options, const LinkOptions& otherwise) noexcept;

/// Checks the options. Errors: Errc::invalid_argument, Stage::configure: a value is out of range,
/// or the tries take more than half of EndpointOptions::peer_timeout.
Result<void> check_link_options(const EndpointOptions& options);

/// Checks options for rdma_cm. Errors: Errc::not_supported, Stage::configure, Hint::rdma_cm_route:
/// an option that the connection manager's route would not keep.
Result<void> check_managed(const LinkOptions& link);

/// How a lane marks its packets, and how long it waits for acknowledgements.
[[nodiscard]] verbs::Wiring wiring_by(const EndpointOptions& options) noexcept;

}  // namespace hbmwire::detail
