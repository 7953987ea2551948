// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire {

/// A random number for the life of this process (getrandom(2)): constant from the first call on,
/// never 0. A restarted process has another one, and so has a child by fork(2). It tells a peer
/// that facts learned from one of them do not hold for the other. Thread-safe.
[[nodiscard]] std::uint64_t incarnation() noexcept;

}  // namespace hbmwire
