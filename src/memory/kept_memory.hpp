// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/memory.hpp"

namespace hbmwire::detail {

/// Whether the memory stays as long as the Allocation, because the library has allocated, adopted
/// or imported it. Otherwise it belongs to the application, which may unmap it at any time.
[[nodiscard]] bool is_kept(const Allocation& memory) noexcept;

}  // namespace hbmwire::detail
