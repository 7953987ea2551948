// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>

#include "emulation/gaudi/abi/synapse.h"

namespace hbmwire::emulation::gaudi {

/// The host memory that a card's DMA engines may access. Not thread-safe.
class HostMemory {
 public:
  explicit HostMemory(int fd) : fd_(fd) {}

  synStatus allocate(std::uint64_t bytes, void** buffer);
  synStatus free(const void* buffer);
  synStatus map(std::uint64_t bytes, const void* buffer);
  synStatus unmap(const void* buffer);

  /// Whether [address, address + bytes) lies within one mapping.
  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t bytes) const;

  /// Unmaps everything, and frees the memory that was allocated here.
  void clear();

 private:
  struct Range {
    std::uint64_t bytes = 0;
    std::uint64_t device_address = 0;
    bool owned = false;
  };

  using Ranges = std::map<std::uint64_t, Range>;

  synStatus add(std::uint64_t address, std::uint64_t bytes, bool owned);
  synStatus remove(Ranges::iterator range);

  int fd_;
  Ranges ranges_;
};

}  // namespace hbmwire::emulation::gaudi
