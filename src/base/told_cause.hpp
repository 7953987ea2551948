// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "hbmwire/error.hpp"

namespace hbmwire {

/// Keeps a repeated failure from filling the log: it is logged once, and again whenever its cause
/// changes.
class ToldCause {
 public:
  /// Whether to log this failure. At most 10 in all, because a peer may cause failures that
  /// alternate between causes.
  [[nodiscard]] bool is_new(const Error& why) noexcept {
    constexpr unsigned kMost = 10;
    // Comparing the address of the call's text is enough: it is a static string, one for each call.
    const bool same_call = std::exchange(call_, why.call) == why.call;
    const bool same_number = std::exchange(number_, why.number) == why.number;
    if (same_call && same_number) return false;
    return told_++ < kMost;
  }

  /// The call succeeded: the next failure is logged again.
  void forget() noexcept { *this = {}; }

 private:
  const char* call_ = nullptr;
  std::int32_t number_ = 0;
  unsigned told_ = 0;
};

}  // namespace hbmwire
