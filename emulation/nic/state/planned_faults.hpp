// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <string_view>

#include "emulation/common/faults.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// What the fault plan does to a call. Links that it takes down are those of all NICs that this
/// process has open, and are down when it returns. The caller holds no lock that processes share.
CallFaults planned_faults(Process& process, std::string_view call);

/// The same for posting and polling.
CallFaults planned_data_path_faults(Process& process, std::string_view call);

/// errno that posting, polling and arming fail with before they begin: the process is a forked
/// child, or a fault plan says so. 0: go on. Without a rule for calls the plan costs one branch.
inline int data_path_failure(Process& process, std::string_view call) {
  if (!process.abandoned() && !FaultPlan::plans(FaultRule::Point::call)) [[likely]]
    return 0;
  if (process.abandoned()) return EIO;
  return planned_data_path_faults(process, call).error_number;
}

/// ENOMEM when there are as many objects of a kind in this process as its plan lets it have, or 0.
int planned_limit(const Process& process, ObjectKind kind);

}  // namespace hbmwire::emulation::nic
