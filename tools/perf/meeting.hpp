// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

#include "hbmwire/group.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools::perf {

/// The group of the processes that a launcher has started. Its ranks speak by TCP, so that their
/// words do not disturb what is measured. `address`: as GroupOptions::address. Waits for
/// `patience`, and a minute at least, since launchers start ranks seconds apart. Errors: as
/// Group::create(); a group of one rank, which has no pairs (kExitUsage).
Outcome<Group> meet(const std::string& address, std::chrono::seconds patience, int cancel_fd);

}  // namespace hbmwire::tools::perf
