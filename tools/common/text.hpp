// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hbmwire::tools {

/// Parses "4096", "4k", "4M", "1GiB", "2T" as bytes; K to T mean 2^10 to 2^40. Empty for other
/// texts, for 0, and for numbers above 64 bits.
std::optional<std::uint64_t> parse_size(std::string_view text) noexcept;

/// "4 MiB" for a whole number of the largest such unit, else "1234567 bytes".
std::string size_text(std::uint64_t bytes);

/// "1234.5 MiB/s"; "-" if no time was measured.
std::string rate_text(std::uint64_t bytes, std::uint64_t nanoseconds);

/// "(first 10 of 1048576 ints): 1 2 3 ...", for a buffer of `total_bytes` that begins with `head`.
std::string ints_text(std::span<const std::byte> head, std::uint64_t total_bytes);

/// Whether a name from a peer may be used for a file: not empty, no path, no control characters, at
/// most 255 bytes.
bool is_base_name(std::string_view name) noexcept;

/// Turns "dir/name" into "name"; empty if the path ends in '/', "." or "..".
std::string base_name_of(const std::string& path);

}  // namespace hbmwire::tools
