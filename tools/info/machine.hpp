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

/// A device of a type of memory, and what is around it.
struct DeviceView {
  DeviceInfo device;
  std::vector<NearNic> nics;  ///< nearest first; none for host memory
};

struct MemoryView {
  MemoryProbe probe;
  std::vector<DeviceView> devices;
};

/// What `hbmwire info` tells of this machine, gathered at one moment.
struct Machine {
  std::vector<NicDevice> nics;
  std::optional<Error> no_nics;  ///< why there are none
  std::vector<MemoryView> memory;
  /// Whether the kernel lets processes of this user copy each other's private memory
  /// (kernel.yama.ptrace_scope): else they share what is allocated so alone (docs/paths.md).
  bool shares_private = false;
};

/// Looks at the machine; opens no accelerator. Fails only for a setting that can't be.
Outcome<Machine> look_at_machine();

}  // namespace hbmwire::tools
