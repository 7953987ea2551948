// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hbmwire::detail {

/// Memory for messages that wait, in units, of which a message takes neighbours: what is in one
/// piece goes by one memcpy, and by one READ to a device.
class UnexpectedPool {
 public:
  static constexpr std::uint64_t kUnitBytes = 256;

  UnexpectedPool() = default;

  UnexpectedPool(std::byte* memory, std::uint32_t units) : memory_(memory), taken_(units) {}

  [[nodiscard]] static std::uint32_t units_for(std::uint64_t bytes) noexcept {
    return static_cast<std::uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
  }

  /// Null where there are not as many beside each other.
  std::byte* take(std::uint32_t units) noexcept;
  void give_back(const std::byte* at, std::uint32_t units) noexcept;

 private:
  std::byte* memory_ = nullptr;
  std::vector<std::uint8_t> taken_;  // one each, so that a run is found without shifting bits
  std::uint32_t from_ = 0;           // where the next look begins
  std::uint32_t free_ = static_cast<std::uint32_t>(taken_.size());
};

}  // namespace hbmwire::detail
