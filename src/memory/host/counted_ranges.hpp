// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// Counts for each address how many of the added ranges cover it. Not thread-safe. Each call costs
/// the logarithm of the number of ranges, and as much again for each range within the given one.
class CountedRanges {
 public:
  void add(AddressRange range);

  /// Takes back one add() of exactly this range. Calls `uncovered(part)` for each part that no
  /// other range covers. Does not allocate. Ignores a range that was never added.
  template <class Use>
  void remove(AddressRange range, Use uncovered) noexcept;

  /// Calls `uncovered(part)` for each part of the range that no range covers.
  template <class Use>
  void find_uncovered(AddressRange range, Use uncovered) const;

  /// Calls `covered(part)` for each part that ranges cover.
  template <class Use>
  void find_covered(Use covered) const;

  [[nodiscard]] bool empty() const noexcept { return steps_.empty(); }

 private:
  // A place where ranges begin or end. It stays until the last of these is removed, even if the
  // count does not change here, so that remove() finds both ends of its range.
  struct Step {
    std::uint64_t count = 0;  // from here to the next step
    std::uint64_t ends = 0;   // the number of range ends here
  };

  using Steps = std::map<std::uint64_t, Step>;

  Steps::iterator step_at(std::uint64_t address);
  /// A range no longer begins or ends here: erases the step after its last one.
  void leave(Steps::iterator step) noexcept;

  Steps steps_;
};

template <class Use>
void CountedRanges::remove(AddressRange range, Use uncovered) noexcept {
  const auto begin = steps_.find(range.begin);
  const auto end = steps_.find(range.end);
  if (begin == steps_.end() || end == steps_.end() || range.begin >= range.end) return;
  AddressRange part;
  for (auto step = begin; step != end; ++step) {
    if (step->second.count == 0) continue;  // part of a range that was never added
    if (--step->second.count != 0) continue;
    // Steps that touch make one part.
    if (part.end != step->first) {
      if (part.begin != part.end) uncovered(part);
      part.begin = step->first;
    }
    part.end = std::next(step)->first;
  }
  if (part.begin != part.end) uncovered(part);
  leave(begin);
  leave(end);
}

template <class Use>
void CountedRanges::find_uncovered(AddressRange range, Use uncovered) const {
  auto step = steps_.upper_bound(range.begin);
  std::uint64_t count = step == steps_.begin() ? 0 : std::prev(step)->second.count;  // of `at`
  for (std::uint64_t at = range.begin; at < range.end;) {
    const std::uint64_t next = step == steps_.end() ? range.end : std::min(step->first, range.end);
    if (count == 0 && at < next) uncovered(AddressRange{at, next});
    at = next;
    if (step != steps_.end()) count = (step++)->second.count;
  }
}

template <class Use>
void CountedRanges::find_covered(Use covered) const {
  for (auto step = steps_.begin(); step != steps_.end(); ++step)
    if (step->second.count != 0) covered(AddressRange{step->first, std::next(step)->first});
}

}  // namespace hbmwire::memory::host
