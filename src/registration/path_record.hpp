// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::detail {

/// How a device's memory is reached, and why not by a better path. There are few different records,
/// so each is kept until the process ends. A transfer stores the number of its region's record:
/// that needs no reference count, and still explains the transfer after the region has gone.
struct PathRecord {
  MemoryType type = MemoryType::host;
  Path path = Path::host;
  std::uint16_t number = 0;  // record_at()
  std::string device;
  std::vector<PathTried> tried;  // every path, the best first

  /// The error of a policy that excludes `path`. It names the exclusion, and why the better path
  /// was not taken.
  Error excluded;
  std::string excluded_text;  // text of excluded.call

  mutable std::atomic<bool> noted{false};  // note() has nothing (more) to log
};

/// The record for a device's memory that goes by `path`. `refused`: paths that were tried before,
/// and those that are impossible.
[[nodiscard]] const PathRecord& record_of(const DeviceInfo& device, Path path,
                                          const std::vector<PathTried>& refused);

/// The record with this PathRecord::number; null for 0, which no record has.
[[nodiscard]] const PathRecord* record_at(std::uint16_t number);

/// Logs once for each device that its memory does not travel zero-copy, if so.
void note(const PathRecord& record);

}  // namespace hbmwire::detail
