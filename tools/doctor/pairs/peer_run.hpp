// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "hbmwire/path.hpp"

#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {

/// A transfer between two processes without a NIC, by endpoints. The server offers its memory until
/// the client has written a pattern there and read it back.
struct PeerServer {
  PlanMemory memory;
  Path path = Path::tcp;  ///< ipc or tcp; only this path is allowed
  Timing timing;

  /// Sends {"port": N}, or {"memory_error": ...}.
  void operator()(Voice& voice, int cancel_fd) const;
};

struct PeerClient {
  PlanMemory memory;  ///< the server's memory
  Path path = Path::tcp;
  Timing timing;
  std::uint16_t port = 0;

  /// Sends {"pair": ...}.
  void operator()(Voice& voice, int cancel_fd) const;
};

/// Whether processes can share memory of this type.
[[nodiscard]] bool is_shared_by_ipc(MemoryType type) noexcept;

}  // namespace hbmwire::tools::doctor
