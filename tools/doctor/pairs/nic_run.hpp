// SPDX-License-Identifier: MIT
#pragma once

#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/pair.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {

/// Tests one memory with each of these NICs, in a process of its own. Allocates the memory once;
/// for each NIC it registers the memory, writes and reads it in loopback, compares the bytes, and
/// measures the time. Sends {"pair": ...} for each NIC, in their order, until the time budget is
/// used up, or {"memory_error": ...} if the memory cannot be opened.
struct NicRuns {
  PlanMemory memory;
  std::vector<PlanNic> nics;
  Timing timing;
  double memcpy_bytes_per_second = 0;  ///< as in Plan

  void operator()(Voice& voice, int cancel_fd) const;
};

}  // namespace hbmwire::tools::doctor
