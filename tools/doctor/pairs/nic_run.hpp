// SPDX-License-Identifier: MIT
#pragma once

#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/pair.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {

/// One memory with each of these NICs, in a process of its own: allocated once; registered, written
/// and read in loopback, compared, and timed by each NIC. Says {"pair": ...} for each of them, in
/// their order, until the budget is used up, and {"memory_error": ...} where the memory itself
/// can't be had.
struct NicRuns {
  PlanMemory memory;
  std::vector<PlanNic> nics;
  Timing timing;
  double memcpy_bytes_per_second = 0;  ///< Plan's

  void operator()(Voice& voice, int cancel_fd) const;
};

}  // namespace hbmwire::tools::doctor
