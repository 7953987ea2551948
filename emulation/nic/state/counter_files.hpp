// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

/// A port's counters as sysfs shows them. A plain file does not notice that it is read, so the
/// files are rewritten after a counter has changed.
namespace hbmwire::emulation::nic {

struct PortRecord;

/// The paths of all counters that the NIC keeps, relative to ports/<n>.
std::span<const char* const> counter_files();

/// The paths of counters for events that this NIC never has: it does not lose, damage or duplicate
/// packets. They stay 0.
std::span<const char* const> idle_counter_files();

/// Rewrites the files of one port whose counters have changed. Afterwards they include everything
/// that was counted before the call, even if other processes publish at the same time. Returns
/// false if a stopped process holds the port's lock: try again later.
bool publish_counters(const std::filesystem::path& fabric, PortRecord& port);

}  // namespace hbmwire::emulation::nic
