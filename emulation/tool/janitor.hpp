// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include "emulation/common/world.hpp"

namespace hbmwire::emulation::tool {

/// Starts a small process that sleeps until the last process of the node has ended, in any way,
/// then removes the remains of the node and ends. It is in a session of its own and keeps none of
/// its parent's files open. Blocked signals stay blocked in it (held_signals.hpp). Returns -1 if it
/// cannot be started: the next run removes the remains then.
pid_t start_janitor(const emulation::World& world);

/// Ends a janitor that this process has started.
void stop_janitor(pid_t janitor);

/// Removes the remains of the node if no process is in it. Waits briefly for processes that are
/// just leaving.
bool clean_up(const emulation::World& world);

}  // namespace hbmwire::emulation::tool
