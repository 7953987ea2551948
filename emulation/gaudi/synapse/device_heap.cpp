// SPDX-License-Identifier: MIT
#include "emulation/gaudi/synapse/device_heap.hpp"

#include <iterator>

namespace hbmwire::emulation::gaudi {
namespace {

constexpr std::uint64_t kAlignment = 128;

std::uint64_t rounded_up(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::uint64_t DeviceHeap::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > end_ - begin_) return 0;
  const std::uint64_t rounded = rounded_up(bytes);
  std::uint64_t at = begin_;
  for (const auto& [address, size] : live_) {
    if (address - at >= rounded) break;
    at = address + rounded_up(size);
  }
  if (end_ - at < rounded) return 0;
  live_.emplace(at, bytes);
  return at;
}

std::uint64_t DeviceHeap::free(std::uint64_t address) {
  const auto found = live_.find(address);
  if (found == live_.end()) return 0;
  const std::uint64_t bytes = found->second;
  live_.erase(found);
  return bytes;
}

bool DeviceHeap::contains(std::uint64_t address, std::uint64_t bytes) const {
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address - begin <= size && bytes <= size - (address - begin);
}

std::uint64_t DeviceHeap::free_bytes() const {
  std::uint64_t used = 0;
  for (const auto& [address, size] : live_) used += rounded_up(size);
  return end_ - begin_ - used;
}

}  // namespace hbmwire::emulation::gaudi
