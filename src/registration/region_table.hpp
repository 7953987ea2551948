// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "hbmwire/nic.hpp"

#include "memory/host/address_watch.hpp"

namespace hbmwire::detail {

using memory::host::AddressRange;

/// Finds the region that covers an address. Ranges with the same access must not overlap. Not
/// thread-safe.
template <class Entry>
class RegionTable {
 public:
  /// Null if no entry covers all of `range`.
  [[nodiscard]] Entry* find(AddressRange range, Access access) const {
    const auto& ranges = of(access);
    const auto behind = ranges.upper_bound(range.begin);
    if (behind == ranges.begin()) return nullptr;
    Entry* const entry = std::prev(behind)->second;
    return range.end <= entry->range.end ? entry : nullptr;
  }

  /// No entry of the same access may overlap it.
  void insert(Entry& entry) { of(entry.access).emplace(entry.range.begin, &entry); }

  void erase(const Entry& entry) { of(entry.access).erase(entry.range.begin); }

  /// Calls `use(entry)` for each entry of this access that overlaps `range`; `use` may erase that
  /// entry.
  template <class Use>
  void overlapping(AddressRange range, Access access, Use use) {
    auto& ranges = of(access);
    auto at = ranges.upper_bound(range.begin);
    if (at != ranges.begin() && std::prev(at)->second->range.end > range.begin) --at;
    while (at != ranges.end() && at->first < range.end) {
      Entry* const entry = at->second;
      ++at;
      use(*entry);
    }
  }

  /// Calls `use(entry)` for each entry of any access that overlaps `range`.
  template <class Use>
  void overlapping(AddressRange range, Use use) {
    for (std::size_t access = 0; access < tables_.size(); ++access)
      overlapping(range, static_cast<Access>(access), use);
  }

 private:
  using Ranges = std::map<std::uint64_t, Entry*>;

  // One table for each set of Access bits. Unknown bits are refused before they come here.
  static constexpr std::size_t kSets = static_cast<std::size_t>(kAllAccess) + 1;
  static_assert(std::has_single_bit(kSets), "the bits leave no gap");

  std::array<Ranges, kSets> tables_;

  Ranges& of(Access access) { return tables_.at(static_cast<std::size_t>(access)); }

  [[nodiscard]] const Ranges& of(Access access) const {
    return tables_.at(static_cast<std::size_t>(access));
  }
};

}  // namespace hbmwire::detail
