// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::test {

/// Counts the calling thread's calls of operator new, which is replaced in the whole program. Those
/// of the emulated NIC do not count. At most one object in a thread.
class CountedAllocations {
 public:
  CountedAllocations() noexcept;
  CountedAllocations(const CountedAllocations&) = delete;
  CountedAllocations& operator=(const CountedAllocations&) = delete;
  ~CountedAllocations();

  /// Returns the number so far, and stops counting.
  int stop() noexcept;
};

}  // namespace hbmwire::test
