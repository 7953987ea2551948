// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "hbmwire/error.hpp"

namespace hbmwire {

/// Keeps a log from saying again and again why the same thing fails, and lets it say so each time
/// that the cause is another one.
class ToldCause {
 public:
  /// Whether to tell of it. Not more than some in all: who alternates between causes may be a peer.
  [[nodiscard]] bool is_new(const Error& why) noexcept {
    constexpr unsigned kMost = 10;
    // The address of a call's text is enough: it is static, and one call's.
    const bool same_call = std::exchange(call_, why.call) == why.call;
    const bool same_number = std::exchange(number_, why.number) == why.number;
    if (same_call && same_number) return false;
    return told_++ < kMost;
  }

  /// It went well: the next failure is news.
  void forget() noexcept { *this = {}; }

 private:
  const char* call_ = nullptr;
  std::int32_t number_ = 0;
  unsigned told_ = 0;
};

}  // namespace hbmwire
