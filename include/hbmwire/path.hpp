// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"

namespace hbmwire {

/// Where the two ends of a connection are, as they have told each other.
enum class Placement : std::uint8_t {
  same_process,  ///< both are endpoints of one process
  same_node,     ///< two processes of one machine: one kernel
  two_nodes,     ///< two machines, or unknown
};

/// "same process", "same node", "two nodes".
[[nodiscard]] HBMWIRE_API std::string_view to_string(Placement placement) noexcept;

/// The paths by which memory may travel. If memory or a connection cannot keep to the policy, it is
/// refused, with the reason, where it is registered or connected, and never later.
///
/// Path::host: a NIC reads and writes host memory without a copy. `require` of zero_copy is about
/// the memory of devices, so it admits Path::host. An `allow` that does not name Path::host
/// excludes it.
///
/// Path::shared_memory is also a path of host memory. An `allow` that does not name it excludes it.
/// `require` of any other path but Path::ipc excludes it, too, so that a NIC carries the bytes when
/// a NIC is meant. `require` of Path::shared_memory leaves host memory no other path, and memory of
/// devices none at all.
///
/// Path::nic_loopback is zero_copy within a node: no policy names it, and a policy that admits
/// zero_copy admits it. Without Path::staged, memory that the NIC refuses is an error, and the end
/// receives no message that would stop in host memory on its way. Without Path::copy no engine
/// carries bytes within a process. Without Path::ipc no engine carries bytes between processes; an
/// `allow` that names Path::ipc prefers it to the NIC. Without Path::tcp no endpoint has an end
/// without an RDMA device.
struct PathPolicy {
  std::optional<Path> require = {};  ///< the only path of device memory; host memory: see above
  std::vector<Path> allow = {};      ///< the only paths; empty: all

  /// Whether memory of `type` may go by `path`.
  [[nodiscard]] HBMWIRE_API bool admits(MemoryType type, Path path) const noexcept;

  bool operator==(const PathPolicy&) const = default;
};

}  // namespace hbmwire
