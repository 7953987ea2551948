// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire {

/// 64 bits that nobody can guess (getrandom(2)), never 0. Thread-safe; a system call.
[[nodiscard]] std::uint64_t random_number() noexcept;

}  // namespace hbmwire
