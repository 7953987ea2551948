// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "registration/exports.hpp"

namespace hbmwire::detail {

struct RegionState;

/// Lets other processes of this node read a region of host memory directly, when they are sent a
/// large message from it. It is open to the same accesses as the NICs' keys of the region, and for
/// as long. Thread-safe.
class RegionShare {
 public:
  /// Export::shared() for all of `region`, which must be open to remote reading; 0 if other
  /// processes cannot find it.
  std::uint32_t number_of(const RegionState& region) noexcept;

 private:
  static constexpr std::uint32_t kUnknown = ~0U;

  std::atomic<std::uint32_t> number_{kUnknown};
  std::mutex mutex_;  // guards the members below
  Export export_;
};

}  // namespace hbmwire::detail
