// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire {

/// The number of this life of this process: random (getrandom(2)), the same from the first call on,
/// never 0. A process that is started again has another one, and so has a child by fork(2): what a
/// peer was told by one of them does not hold for the other. Thread-safe.
[[nodiscard]] std::uint64_t incarnation() noexcept;

}  // namespace hbmwire
