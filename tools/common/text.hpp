// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hbmwire::tools {

/// "4096", "4k", "4M", "1GiB", "2T": bytes, K to T meaning 2^10 to 2^40. Nothing for anything else,
/// for 0 and for what does not fit 64 bits.
std::optional<std::uint64_t> parse_size(std::string_view text) noexcept;

/// "4 MiB" for what is a whole number of a unit below 10000, else "1234567 bytes".
std::string size_text(std::uint64_t bytes);

/// "1234.5 MiB/s"; "-" when no time was measured.
std::string rate_text(std::uint64_t bytes, std::uint64_t nanoseconds);

/// "(first 10 of 1048576 ints): 1 2 3 ...", of a buffer of `total_bytes` that begins with `head`.
std::string ints_text(std::span<const std::byte> head, std::uint64_t total_bytes);

/// Whether a name from a peer may become a file's name: not empty, no path, no control characters,
/// at most 255 bytes.
bool is_base_name(std::string_view name) noexcept;

/// "dir/name" to "name"; empty when the path ends in '/', "." or "..".
std::string base_name_of(const std::string& path);

}  // namespace hbmwire::tools
