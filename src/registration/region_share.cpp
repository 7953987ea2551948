// SPDX-License-Identifier: MIT
#include "registration/region_share.hpp"

#include "base/guarded.hpp"
#include "registration/region_state.hpp"

namespace hbmwire::detail {

std::uint32_t RegionShare::number_of(const RegionState& region) noexcept {
  if (const std::uint32_t known = number_.load(std::memory_order_acquire); known != kUnknown)
    return known;
  const std::scoped_lock lock(mutex_);
  if (number_.load(std::memory_order_relaxed) != kUnknown) return number_;
  // Exports the memory only once, even if that fails: a NIC then reads the memory, or its owner
  // writes it to the peer.
  const auto number = guarded(Stage::post, [&]() -> Result<std::uint32_t> {
    export_ = Export({.allocation = region.allocation,
                      .address = region.address(),
                      .length_bytes = region.size_bytes,
                      .access = Access::remote_read});
    return export_.shared();
  });
  number_.store(number.value_or(0), std::memory_order_release);
  return number_;
}

}  // namespace hbmwire::detail
