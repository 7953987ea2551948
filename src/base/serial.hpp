// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire {

/// Whether `a` comes before `b` of things that are counted, where the count begins anew after 2^32:
/// true of any two that are less than 2^31 apart (RFC 1982, section 3.2).
[[nodiscard]] constexpr bool is_before(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>(a - b) < 0;
}

}  // namespace hbmwire
