// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/endpoint.hpp"
#include "hbmwire/link.hpp"

#include "verbs/wiring.hpp"

namespace hbmwire::detail {

/// `options`, and where it leaves an option open `otherwise`.
[[nodiscard]] LinkOptions merged(const LinkOptions& options, const LinkOptions& otherwise) noexcept;

/// Errors: Errc::invalid_argument, Stage::configure: a value out of range; tries that take more
/// than half of EndpointOptions::peer_timeout.
Result<void> check_link_options(const EndpointOptions& options);

/// Errors: Errc::not_supported, Stage::configure, Hint::rdma_cm_route: an option that the
/// connection manager's route would not keep.
Result<void> check_managed(const LinkOptions& link);

/// How a lane's packets are marked, and how long it waits for acknowledgements.
[[nodiscard]] verbs::Wiring wiring_by(const EndpointOptions& options) noexcept;

}  // namespace hbmwire::detail
