// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "emulation/common/fault_rule.hpp"

namespace hbmwire::emulation {

/// What a rule has counted so far, in <fabric>/faults, shared by all processes of the fabric.
struct FaultCounter {
  std::atomic<std::uint64_t> key;  ///< which rule's it is (see fault_key), 0: free
  std::atomic<std::uint64_t> matches;
  std::atomic<std::uint64_t> acts;  ///< counted for rules with a chance alone
};

/// Names a rule: processes of one fabric may run under different plans, so that it is what the rule
/// says, and not its place in the plan. `repetition` tells equal rules of a plan apart. The same in
/// every process, and never 0.
std::uint64_t fault_key(const FaultRule& rule, std::size_t repetition);

/// The counters of `rules`, in their order; empty, with errno, when they can't be had (ENOSPC: the
/// table is full). Mapped for the life of the process.
std::vector<FaultCounter*> map_fault_counters(const std::filesystem::path& file,
                                              const std::vector<FaultRule>& rules);

}  // namespace hbmwire::emulation
