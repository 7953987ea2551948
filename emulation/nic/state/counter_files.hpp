// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

/// A port's counters as sysfs shows them. Plain files do not know that they are read, so they are
/// written again when what they say has changed.
namespace hbmwire::emulation::nic {

struct PortRecord;

/// The paths below ports/<n> of all counters that the NIC keeps.
std::span<const char* const> counter_files();

/// Those of events that this NIC knows not: no packet of it is lost, damaged or comes twice. They
/// stay 0.
std::span<const char* const> idle_counter_files();

/// Writes the files of one port as far as they have changed since. What was counted before the call
/// is in them afterwards, whoever else publishes at the same time. False: not now, a process that
/// was stopped is at it.
bool publish_counters(const std::filesystem::path& fabric, PortRecord& port);

}  // namespace hbmwire::emulation::nic
