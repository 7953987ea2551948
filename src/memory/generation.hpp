// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::memory {

/// A number for a new allocation or import, unique in the process and never 0. A registration that
/// was kept for an address can tell by it that another allocation lies there now. Thread-safe.
[[nodiscard]] std::uint64_t next_generation() noexcept;

}  // namespace hbmwire::memory
