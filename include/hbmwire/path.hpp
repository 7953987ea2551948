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

/// Where the two ends of a connection are, by what they have told each other.
enum class Placement : std::uint8_t {
  same_process,
  same_node,  ///< two processes of one machine: one kernel
  two_nodes,  ///< or it is not known
};

/// "same process", "same node", "two nodes".
[[nodiscard]] HBMWIRE_API std::string_view to_string(Placement placement) noexcept;

/// By which paths memory may travel. What can't keep to it is refused where it is registered or
/// connected, with the reason, and never later.
///
/// Host memory that a NIC reads and writes by itself (Path::host) is not copied either: it is
/// within `require` of zero_copy, which is about the memory of devices, and is left out by an
/// `allow` that does not name it.
///
/// Path::nic_loopback is what zero_copy is called within a node, and no policy names it: who admits
/// zero_copy admits it. Path::staged excluded: the NIC's refusal of memory is an error, and the end
/// is sent no message that would stop on its way. Path::copy: engines carry nothing in a process.
/// Path::ipc: nor between processes; one whose `allow` names it has it before the NIC.
/// Path::tcp: there is no endpoint of which one end has no RDMA device.
struct PathPolicy {
  std::optional<Path> require = {};  ///< device memory by this path alone
  std::vector<Path> allow = {};      ///< by these alone; empty: all

  /// Whether memory of `type` may go by `path`.
  [[nodiscard]] HBMWIRE_API bool admits(MemoryType type, Path path) const noexcept;

  bool operator==(const PathPolicy&) const = default;
};

}  // namespace hbmwire
