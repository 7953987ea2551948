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
  std::chrono::milliseconds step{10'000};  ///< a step that takes longer counts as failed
};

/// Tries every pair of memory and NIC, and the ways that move bytes without a NIC. Each memory has
/// a process of its own, one after the other, so that a hanging driver or a crashing library only
/// fails a step. The calling process opens no device, and must not have opened one before. Errors:
/// interrupted; a device that the user asked for does not exist.
Outcome<Pairs> run_pairs(const PairOptions& options, const Interrupt& interrupt, Output& output);

}  // namespace hbmwire::tools::doctor
