// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::transport {

/// Whether the device copies with an engine of its own; false if the CPU copies.
[[nodiscard]] bool has_engine(const MemoryDomain& domain) noexcept;

/// Whether an engine of this process copies from `from`'s memory to `to`'s: between host and
/// device, within a device, or between two devices if the vendor's library can. Never between host
/// and host.
[[nodiscard]] bool engine_copies(const MemoryDomain& from, const MemoryDomain& to) noexcept;

/// A place of bytes in the memory of a domain.
struct CopyPlace {
  MemoryDomain& domain;
  std::uint64_t address = 0;
};

/// Errors: Stage::copy; Errc::not_supported unless engine_copies() is true.
Result<PendingCopy> start_engine_copy(const CopyPlace& from, const CopyPlace& to,
                                      std::uint64_t length_bytes);

}  // namespace hbmwire::transport
