// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "tools/common/interrupt.hpp"
#include "tools/common/output.hpp"
#include "tools/doctor/pairs/pair.hpp"
#include "tools/doctor/pairs/plan.hpp"

namespace hbmwire::tools::doctor {

struct PairOptions {
  Selection selection;
  std::chrono::milliseconds step{10'000};  ///< a step that takes longer has failed
};

/// Tries every pair of memory and NIC, and without a NIC what else moves bytes; a memory at a time,
/// each in a process of its own, so that a driver that hangs or a library that crashes is a failed
/// step. The calling process opens nothing, and must have opened nothing. Errors: interrupted; a
/// device that was asked for is not there.
Outcome<Pairs> run_pairs(const PairOptions& options, const Interrupt& interrupt, Output& output);

}  // namespace hbmwire::tools::doctor
