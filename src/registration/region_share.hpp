// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "registration/exports.hpp"

namespace hbmwire::detail {

struct RegionState;

/// A region of host memory as processes of this node read it that are sent a large message of it:
/// as open as its NICs' keys are, and as long. Thread-safe.
class RegionShare {
 public:
  /// Export::shared() of all of `region`, which is open to remote reading; 0: they do not find it.
  std::uint32_t number_of(const RegionState& region) noexcept;

 private:
  static constexpr std::uint32_t kUnknown = ~0U;

  std::atomic<std::uint32_t> number_{kUnknown};
  std::mutex mutex_;  // of what follows
  Export export_;
};

}  // namespace hbmwire::detail
