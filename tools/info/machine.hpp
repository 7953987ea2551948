// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/topology.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools {

/// A device with memory, and the NICs near it.
struct DeviceView {
  DeviceInfo device;
  std::vector<NearNic> nics;  ///< nearest first; none for host memory
};

struct MemoryView {
  MemoryProbe probe;
  std::vector<DeviceView> devices;
};

/// The facts about this machine that `hbmwire info` shows, collected at one moment.
struct Machine {
  std::vector<NicDevice> nics;
  std::optional<Error> no_nics;  ///< the reason why there are none
  std::vector<MemoryView> memory;
  /// Whether the kernel lets processes of this user copy each other's private memory
  /// (kernel.yama.ptrace_scope). If not, they can share only memory that was allocated as shared
  /// (docs/paths.md).
  bool shares_private = false;
};

/// Collects the facts; opens no accelerator. Errors: an invalid setting.
Outcome<Machine> look_at_machine();

}  // namespace hbmwire::tools
