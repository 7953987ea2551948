// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::test {

/// Makes allocations of the library fail. While armed, counts calls of operator new, in all
/// threads, by code of the library that is linked into the test program. Those of the emulated
/// hardware's libraries do not count, because they stand for hardware. For this purpose the program
/// replaces operator new and delete.
struct FailingAllocations {
  /// Makes the `nth` allocation from here on (1: the next one) fail with std::bad_alloc; with
  /// `for_good`, also all later ones.
  static void arm(long nth, bool for_good) noexcept;

  /// Returns the number of allocations counted since arm().
  static long disarm() noexcept;

  /// Whether an allocation has failed since arm().
  [[nodiscard]] static bool failed() noexcept;

  /// Allocations of the whole process that were not freed.
  [[nodiscard]] static std::int64_t live() noexcept;
};

}  // namespace hbmwire::test
