// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::memory {

/// A number for a new allocation or import: another one each time, in all of the process, so that
/// what is kept of an address (a registration) can tell that something else lies there now. Never
/// 0. Thread-safe.
[[nodiscard]] std::uint64_t next_generation() noexcept;

}  // namespace hbmwire::memory
