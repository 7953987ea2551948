// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/link.hpp"

#include "verbs/nic_state.hpp"
#include "verbs/wiring.hpp"

namespace hbmwire::verbs {

/// Errors: Errc::invalid_argument, Stage::configure: a value that no queue pair has.
Result<void> check_range(const LinkOptions& link);

/// Applies the part of `link` that each end has for itself.
void apply(const LinkOptions& link, Wiring& wiring) noexcept;

/// Those that `link` asks for, by the tables that the port has now. Errors: Stage::connect:
/// Errc::not_found: there is no such pkey; Errc::not_supported: the port's MTU is smaller.
Result<PortEntries> port_entries(const detail::NicState& nic, const LinkOptions& link);

}  // namespace hbmwire::verbs
