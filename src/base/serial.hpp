// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire {

/// Whether the serial number `a` comes before `b`, where the numbers wrap at 2^32. Correct for any
/// two that are less than 2^31 apart (RFC 1982, section 3.2).
[[nodiscard]] constexpr bool is_before(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>(a - b) < 0;
}

}  // namespace hbmwire
