// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::test {

/// Counts the calling thread's calls of operator new, which is replaced in the whole program, but
/// for those of the emulated NIC. One at a time in a thread.
class CountedAllocations {
 public:
  CountedAllocations() noexcept;
  CountedAllocations(const CountedAllocations&) = delete;
  CountedAllocations& operator=(const CountedAllocations&) = delete;
  ~CountedAllocations();

  /// So far; counting ends.
  int stop() noexcept;
};

}  // namespace hbmwire::test
