// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "hbmwire/host_port.hpp"

#include "tools/common/interrupt.hpp"
#include "tools/common/output.hpp"
#include "tools/doctor/pairs/runner.hpp"
#include "tools/doctor/remote/two_machines.hpp"

namespace hbmwire::tools::doctor {

/// Tests how this machine and that of a `doctor --serve` reach each other: the connection by IP,
/// the checks of both machines, and every pair of their NICs and memories. `place`: the address of
/// that server. The calling process opens no accelerator, and must not have opened one. Errors:
/// interrupted; the other doctor refuses or ends; a NIC or device that the user asked for does not
/// exist.
Outcome<TwoMachines> run_two_machines(const HostPort& place, const PairOptions& options,
                                      const Interrupt& interrupt, Output& output);

}  // namespace hbmwire::tools::doctor
