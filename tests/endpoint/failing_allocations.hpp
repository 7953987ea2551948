// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::test {

/// Has allocations of the library fail. While it is armed, those count that the test program itself
/// asks operator new for, by code of the library that is linked into it, in whatever thread; those
/// of the emulated hardware's libraries do not, which stand for hardware. This program's operator
/// new and delete are its own for that.
struct FailingAllocations {
  /// The `nth` from here on (1: the next one) fails with std::bad_alloc; where `for_good` is set,
  /// all behind it, too.
  static void arm(long nth, bool for_good) noexcept;

  /// How many have counted since arm().
  static long disarm() noexcept;

  /// Whether one has failed since arm().
  [[nodiscard]] static bool failed() noexcept;

  /// Allocations of the whole process that are not freed.
  [[nodiscard]] static std::int64_t live() noexcept;
};

}  // namespace hbmwire::test
