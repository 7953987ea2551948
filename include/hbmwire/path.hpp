// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"

namespace hbmwire {

/// By which paths memory may travel. What can't keep to it is refused where it is registered or
/// connected, with the reason, and never later.
///
/// Host memory that a NIC reads and writes by itself (Path::host) is not copied either: it is
/// within `require` of zero_copy, which is about the memory of devices, and is left out by an
/// `allow` that does not name it.
struct PathPolicy {
  std::optional<Path> require = {};  ///< device memory by this path alone
  std::vector<Path> allow = {};      ///< by these alone; empty: all

  /// Whether memory of `type` may go by `path`.
  [[nodiscard]] HBMWIRE_API bool admits(MemoryType type, Path path) const noexcept;

  bool operator==(const PathPolicy&) const = default;
};

}  // namespace hbmwire
