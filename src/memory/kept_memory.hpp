// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/memory.hpp"

namespace hbmwire::detail {

/// Whether the memory stays as long as the Allocation: the library has allocated, adopted or
/// imported it. Else it is the application's, which may unmap it at any time.
[[nodiscard]] bool is_kept(const Allocation& memory) noexcept;

}  // namespace hbmwire::detail
