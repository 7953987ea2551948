// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>

namespace hbmwire::emulation::gaudi {

/// Divides a range of device addresses into allocations, first fit. Not thread-safe.
class DeviceHeap {
 public:
  DeviceHeap(std::uint64_t begin, std::uint64_t end) : begin_(begin), end_(end) {}

  /// Returns an address aligned to 128 bytes, as SynapseAI's are, or 0 if there is no room.
  std::uint64_t allocate(std::uint64_t bytes);
  /// Returns the number of bytes freed; 0 if no allocation begins at that address.
  std::uint64_t free(std::uint64_t address);

  /// Whether [address, address + bytes) lies within one allocation.
  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t free_bytes() const;

 private:
  std::uint64_t begin_;
  std::uint64_t end_;
  std::map<std::uint64_t, std::uint64_t> live_;  // from address to the requested size
};

}  // namespace hbmwire::emulation::gaudi
