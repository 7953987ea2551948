// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::detail {

/// How memory of a device is reached, and why not otherwise. Few of them differ, by device and
/// cause, so each is kept once until the process ends: a transfer has the number of its region's,
/// without a reference count, and can be explained when the region has gone.
struct PathRecord {
  MemoryType type = MemoryType::host;
  Path path = Path::host;
  std::uint16_t number = 0;  // record_at()
  std::string device;
  std::vector<PathTried> tried;  // every path, the best first

  /// What a policy that excludes `path` says of it: the exclusion, and why the better way was not
  /// taken.
  Error excluded;
  std::string excluded_text;  // excluded.call

  mutable std::atomic<bool> noted{false};  // the log has said that it is not zero-copy
};

/// The record of a device's memory that goes by `path`; `refused`: those that were tried before,
/// and those that can't be.
[[nodiscard]] const PathRecord& record_of(const DeviceInfo& device, Path path,
                                          const std::vector<PathTried>& refused);

/// Of a PathRecord::number; null: 0, which none has.
[[nodiscard]] const PathRecord* record_at(std::uint16_t number);

/// Logs, once a device, that its memory travels other than zero-copy, where it does.
void note(const PathRecord& record);

}  // namespace hbmwire::detail
