// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <cstring>

namespace hbmwire::emulation::nic {

/// The number in an enum that the application has filled in. A C program may store any number
/// there, but C++ must not read an enum whose value is out of its range.
template <typename Enum>
std::uint32_t raw_value(const Enum& value) {
  static_assert(sizeof value == sizeof(std::uint32_t));
  std::uint32_t number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

}  // namespace hbmwire::emulation::nic
