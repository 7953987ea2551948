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
  two_nodes,     ///< two machines, or it is not known
};

/// "same process", "same node", "two nodes".
[[nodiscard]] HBMWIRE_API std::string_view to_string(Placement placement) noexcept;

/// The paths by which memory may travel. Memory or a connection that can't keep to it is refused,
/// with the reason, where it is registered or connected, and never later.
///
/// Host memory that a NIC reads and writes by itself (Path::host) is not copied either: `require`
/// of zero_copy, which is about the memory of devices, admits it, and an `allow` that does not name
/// it excludes it.
///
/// Path::shared_memory is a path of host memory, too: an `allow` that does not name it excludes it,
/// and so does `require` of any other path but Path::ipc, so that a NIC carries the bytes where one
/// is meant. `require` of Path::shared_memory itself leaves host memory no other way, and devices'
/// memory none.
///
/// Path::nic_loopback is zero_copy within a node: no policy names it, and a policy that admits
/// zero_copy admits it. Without Path::staged the NIC's refusal of memory is an error, and the end
/// is sent no message that would stop in host memory on its way. Without Path::copy no engine
/// carries bytes within a process. Without Path::ipc none does between processes; an `allow` that
/// names Path::ipc takes it before the NIC. Without Path::tcp there is no endpoint of which one end
/// has no RDMA device.
struct PathPolicy {
  std::optional<Path> require = {};  ///< device memory by this path alone; host memory: above
  std::vector<Path> allow = {};      ///< by these alone; empty: all

  /// Whether memory of `type` may go by `path`.
  [[nodiscard]] HBMWIRE_API bool admits(MemoryType type, Path path) const noexcept;

  bool operator==(const PathPolicy&) const = default;
};

}  // namespace hbmwire
