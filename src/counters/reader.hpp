// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hbmwire/counters.hpp"

#include "counters/block.hpp"

namespace hbmwire::counters {

/// The counters of `wanted` (0: all) in `blocks`, which may be a stranger's: bytes that make no
/// sense are left out, and text has printable characters alone. Errors: Stage::probe;
/// Errc::protocol: it is no such file, or of another version.
[[nodiscard]] Result<PublishedCounters> read_counters(std::span<const std::byte> blocks,
                                                      const Owner& wanted = {});

/// The same of this process, as of now. Errors: Errc::exhausted.
[[nodiscard]] Result<Counters> read_own(const Owner& wanted);

/// The process that the counters of `blocks` are of, whatever their version, as it knows itself; 0:
/// they are no counters.
[[nodiscard]] std::uint32_t process_of(std::span<const std::byte> blocks) noexcept;

/// How often counts were moved in `blocks`; odd: they are being moved.
[[nodiscard]] std::uint64_t changes_of(std::span<const std::byte> blocks) noexcept;

}  // namespace hbmwire::counters
