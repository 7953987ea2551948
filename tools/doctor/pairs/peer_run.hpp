// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "hbmwire/path.hpp"

#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {

/// The two processes of a transfer without a NIC, by endpoints. One serves its memory until the
/// other one has put a pattern there and got it back.
struct PeerServer {
  PlanMemory memory;
  Path path = Path::tcp;  ///< ipc or tcp: no other is allowed
  Timing timing;

  /// Says {"port": N}, or {"memory_error": ...}.
  void operator()(Voice& voice, int cancel_fd) const;
};

struct PeerClient {
  PlanMemory memory;  ///< the server's
  Path path = Path::tcp;
  Timing timing;
  std::uint16_t port = 0;

  /// Says what NicRuns says, of one pair.
  void operator()(Voice& voice, int cancel_fd) const;
};

/// Whether processes share memory of this type.
[[nodiscard]] bool is_shared_by_ipc(MemoryType type) noexcept;

}  // namespace hbmwire::tools::doctor
