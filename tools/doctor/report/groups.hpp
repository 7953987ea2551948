// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/doctor/pairs/pair.hpp"

namespace hbmwire::tools::doctor {

/// Pairs that ended in the same way.
struct Group {
  std::string subject = {};  ///< of what is slow
  PairError error = {};
  std::vector<const Pair*> pairs = {};
  bool slow = false;
  std::size_t follows = 0;  ///< comes behind the failures before this step
};

/// The pairs that fail or are slow; those that fail first, and of them the ones at the earliest
/// step. `pairs` must outlive the result.
[[nodiscard]] std::vector<Group> groups_of(const Pairs& pairs);

}  // namespace hbmwire::tools::doctor
