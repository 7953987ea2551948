// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "hbmwire/host_port.hpp"

#include "tools/common/interrupt.hpp"
#include "tools/common/output.hpp"
#include "tools/doctor/pairs/runner.hpp"
#include "tools/doctor/remote/two_machines.hpp"

namespace hbmwire::tools::doctor {

/// Finds out how this machine and the one of a `doctor --serve` reach each other: the way by IP,
/// both machines' checks, and every pair of their NICs and memories. `place`: where that listens.
/// The calling process opens no accelerator, and must have opened none. Errors: interrupted; the
/// other doctor refuses, or ends; a NIC or device that was asked for is not there.
Outcome<TwoMachines> run_two_machines(const HostPort& place, const PairOptions& options,
                                      const Interrupt& interrupt, Output& output);

}  // namespace hbmwire::tools::doctor
