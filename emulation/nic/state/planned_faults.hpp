// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "emulation/common/faults.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// What the fault plan does to a call. Links that it takes down are those of all NICs that this
/// process has open, and are down when it returns. The caller holds no lock that processes share.
CallFaults planned_faults(Process& process, std::string_view call);

/// The same for posting and polling.
CallFaults planned_data_path_faults(Process& process, std::string_view call);

/// ENOMEM when there are as many objects of a kind in this process as its plan lets it have, or 0.
int planned_limit(const Process& process, ObjectKind kind);

}  // namespace hbmwire::emulation::nic
