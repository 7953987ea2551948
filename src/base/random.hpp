// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire {

/// 64 unpredictable bits (getrandom(2)), never 0. Thread-safe; makes a system call.
[[nodiscard]] std::uint64_t random_number() noexcept;

}  // namespace hbmwire
