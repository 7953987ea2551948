// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace hbmwire::memory {

/// Ranges of addresses that do not overlap, with a value for each. Thread-safe. Looking up an
/// address outside of all ranges takes no lock.
template <class Value>
class RangeTable {
 public:
  /// Returns false if the range overlaps another one; then nothing is inserted, and `value` is not
  /// moved from.
  bool insert(std::uint64_t base, std::uint64_t size_bytes, Value&& value) {
    const std::unique_lock lock(mutex_);
    const auto after = ranges_.lower_bound(base);
    if (after != ranges_.end() && after->first - base < size_bytes) return false;
    if (after != ranges_.begin() &&
        base - std::prev(after)->first < std::prev(after)->second.size_bytes)
      return false;
    ranges_.emplace_hint(after, base, Range{size_bytes, std::move(value)});
    update_bounds();
    return true;
  }

  /// Removes the range that begins there, which must be in the table.
  Value take(std::uint64_t base) {
    const std::unique_lock lock(mutex_);
    auto node = ranges_.extract(base);
    update_bounds();
    return std::move(node.mapped().value);
  }

  /// Calls `use(base, size_bytes, value)` for the range that holds `address`. Returns false if
  /// there is none.
  template <class Use>
  bool visit(std::uint64_t address, Use use) const {
    if (address < lowest_.load(std::memory_order_relaxed) ||
        address > highest_.load(std::memory_order_relaxed))
      return false;
    const std::shared_lock lock(mutex_);
    const auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return false;
    const auto& [base, range] = *std::prev(after);
    if (address - base >= range.size_bytes) return false;
    use(base, range.size_bytes, range.value);
    return true;
  }

 private:
  struct Range {
    std::uint64_t size_bytes;
    Value value;
  };

  void update_bounds() {
    lowest_.store(ranges_.empty() ? ~std::uint64_t{0} : ranges_.begin()->first,
                  std::memory_order_relaxed);
    highest_.store(
        ranges_.empty() ? 0 : ranges_.rbegin()->first + (ranges_.rbegin()->second.size_bytes - 1),
        std::memory_order_relaxed);
  }

  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, Range> ranges_;
  // Relaxed loads are enough: a thread that asks for an address has got it from an allocator, and
  // has synchronized with these bounds on the way.
  std::atomic<std::uint64_t> lowest_{~std::uint64_t{0}};
  std::atomic<std::uint64_t> highest_{0};
};

}  // namespace hbmwire::memory
