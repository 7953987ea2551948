// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include "emulation/common/world.hpp"

namespace hbmwire::emulation::tool {

/// A small process that sleeps until the last process of the node is gone, however it ended, then
/// removes what the node left and ends. It is in a session of its own and holds nothing of its
/// parent's open; signals that are held back stay so in it (held_signals.hpp). -1 if it cannot be
/// started: the next run then sweeps.
pid_t start_janitor(const emulation::World& world);

/// Ends a janitor of this process.
void stop_janitor(pid_t janitor);

/// Removes what the node left, if no process is in it; waits a moment for those that are just
/// leaving.
bool clean_up(const emulation::World& world);

}  // namespace hbmwire::emulation::tool
