// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <cstring>

namespace hbmwire::emulation::nic {

/// The number in an enum that the application filled in: C programs may put any there, while a C++
/// enum must not even be looked at when it holds none of its own.
template <typename Enum>
std::uint32_t raw_value(const Enum& value) {
  static_assert(sizeof value == sizeof(std::uint32_t));
  std::uint32_t number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

}  // namespace hbmwire::emulation::nic
