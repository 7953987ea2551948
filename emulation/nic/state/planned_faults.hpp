// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <string_view>

#include "emulation/common/faults.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// The faults that the fault plan has for a call. A planned link failure takes down the links of
/// all NICs that this process has open, before it returns. The caller holds no lock that processes
/// share.
CallFaults planned_faults(Process& process, std::string_view call);

/// As planned_faults(), for posting and polling.
CallFaults planned_data_path_faults(Process& process, std::string_view call);

/// The errno that posting, polling or arming fails with before it begins, because the process is a
/// forked child or the fault plan says so. 0: go on. Without a rule for calls the plan costs one
/// branch.
inline int data_path_failure(Process& process, std::string_view call) {
  if (!process.abandoned() && !FaultPlan::plans(FaultRule::Point::call)) [[likely]]
    return 0;
  if (process.abandoned()) return EIO;
  return planned_data_path_faults(process, call).error_number;
}

/// ENOMEM if this process has as many objects of a kind as the fault plan allows; else 0.
int planned_limit(const Process& process, ObjectKind kind);

}  // namespace hbmwire::emulation::nic
