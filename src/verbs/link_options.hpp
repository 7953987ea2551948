// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/link.hpp"

#include "verbs/nic_state.hpp"
#include "verbs/wiring.hpp"

namespace hbmwire::verbs {

/// Errors: Errc::invalid_argument, Stage::configure (a value that no queue pair can have).
Result<void> check_range(const LinkOptions& link);

/// Applies those options that each end sets for itself.
void apply(const LinkOptions& link, Wiring& wiring) noexcept;

/// Finds the entries that `link` asks for in the port's current tables. Errors (Stage::connect):
/// Errc::not_found (no such pkey), Errc::not_supported (the port's MTU is smaller).
Result<PortEntries> port_entries(const detail::NicState& nic, const LinkOptions& link);

}  // namespace hbmwire::verbs
