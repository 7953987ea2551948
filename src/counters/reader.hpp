// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hbmwire/counters.hpp"

#include "counters/block.hpp"

namespace hbmwire::counters {

/// The counters of `wanted` (0: all) in `blocks`, which may come from an untrusted process. Bytes
/// that make no sense are left out, and text has only printable characters. Errors (Stage::probe):
/// Errc::protocol (no such file, or another version).
[[nodiscard]] Result<PublishedCounters> read_counters(std::span<const std::byte> blocks,
                                                      const Owner& wanted = {});

/// The current counters of this process. Errors: Errc::exhausted.
[[nodiscard]] Result<Counters> read_own(const Owner& wanted);

/// The id of the process that made `blocks`, as it knows itself, whatever their version; 0 if they
/// are no counters.
[[nodiscard]] std::uint32_t process_of(std::span<const std::byte> blocks) noexcept;

/// The number of times that counts began or ended moving between blocks; odd: they are moving.
[[nodiscard]] std::uint64_t changes_of(std::span<const std::byte> blocks) noexcept;

}  // namespace hbmwire::counters
