// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/doctor/pairs/pair.hpp"

namespace hbmwire::tools::doctor {

/// Pairs that ended in the same way.
struct Group {
  std::string subject = {};  ///< the part that is slow
  PairError error = {};
  std::vector<const Pair*> pairs = {};
  bool slow = false;
  std::size_t follows = 0;  ///< the least place in the order of steps that it is sorted by
};

/// The pairs that fail or are slow. Failures come first, those of the earliest step before others.
/// `pairs` must outlive the result.
[[nodiscard]] std::vector<Group> groups_of(const Pairs& pairs);

}  // namespace hbmwire::tools::doctor
