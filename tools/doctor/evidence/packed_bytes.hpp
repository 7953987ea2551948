// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Bytes in the formats that JSON and the kernel use: base64 (RFC 4648, with padding), zlib (RFC
// 1950), gzip (RFC 1952).
namespace hbmwire::tools::doctor {

[[nodiscard]] std::string to_base64(std::string_view bytes);

/// Empty if the text is not base64.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

/// Compresses into zlib's format.
[[nodiscard]] std::string deflated(std::string_view bytes);

enum class Inflation {
  whole,
  truncated,  ///< the data has more bytes than allowed
  broken,     ///< not in the format, or ends early
};

struct Inflated {
  Inflation state = Inflation::broken;
  std::string bytes;  ///< at most as many as allowed
};

/// Unpacks zlib's or gzip's format. Returns at most `most_bytes`, whatever size the packed bytes
/// claim.
[[nodiscard]] Inflated inflated(std::string_view packed, std::size_t most_bytes);

}  // namespace hbmwire::tools::doctor
