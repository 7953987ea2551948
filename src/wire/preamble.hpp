// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hbmwire::wire {

/// The length of what every control connection begins with, both ways: eight bytes that no other
/// protocol sends, a version, and six bytes to be zero until they are needed.
inline constexpr std::size_t kPreambleBytes = 16;

}  // namespace hbmwire::wire
