// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::transport {

/// A device with an engine of its own that copies; where the CPU does it, it is none.
[[nodiscard]] bool has_engine(const MemoryDomain& domain) noexcept;

/// Whether an engine of this process copies from `from`'s memory to `to`'s: between host and
/// device, within a device, between two where their vendor's library does. Not between host and
/// host.
[[nodiscard]] bool engine_copies(const MemoryDomain& from, const MemoryDomain& to) noexcept;

/// Where bytes lie.
struct CopyPlace {
  MemoryDomain& domain;
  std::uint64_t address = 0;
};

/// Errors: Stage::copy; Errc::not_supported unless engine_copies().
Result<PendingCopy> start_engine_copy(const CopyPlace& from, const CopyPlace& to,
                                      std::uint64_t length_bytes);

}  // namespace hbmwire::transport
