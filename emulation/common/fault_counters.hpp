// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "emulation/common/fault_rule.hpp"

namespace hbmwire::emulation {

/// The counts of a rule, in <fabric>/faults, shared by all processes of the fabric.
struct FaultCounter {
  std::atomic<std::uint64_t> key;  ///< of the rule (see fault_key()); 0: free
  std::atomic<std::uint64_t> matches;
  std::atomic<std::uint64_t> acts;  ///< counted only for rules with a chance
};

/// Identifies a rule. Processes of one fabric may run under different plans, so the key depends on
/// the rule's content and not on its index in the plan. `repetition` distinguishes equal rules of a
/// plan. The key is the same in every process, and never 0.
std::uint64_t fault_key(const FaultRule& rule, std::size_t repetition);

/// The counters of `rules`, in their order. Returns an empty list with errno on failure (ENOSPC:
/// the table is full). They stay mapped until the process ends.
std::vector<FaultCounter*> map_fault_counters(const std::filesystem::path& file,
                                              const std::vector<FaultRule>& rules);

}  // namespace hbmwire::emulation
