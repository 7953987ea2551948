// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Bytes in the forms that JSON and the kernel have for them: base64 (RFC 4648, with padding), zlib
// (RFC 1950), gzip (RFC 1952).
namespace hbmwire::tools::doctor {

[[nodiscard]] std::string to_base64(std::string_view bytes);

/// Nothing for what is not base64.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

/// In zlib's format.
[[nodiscard]] std::string deflated(std::string_view bytes);

enum class Inflation {
  whole,
  truncated,  ///< there would be more than was allowed
  broken,     ///< not in the format, or it ends early
};

struct Inflated {
  Inflation state = Inflation::broken;
  std::string bytes;  ///< at most as many as were allowed
};

/// Unpacks zlib's format or gzip's, `most_bytes` at most, whatever the packed bytes claim.
[[nodiscard]] Inflated inflated(std::string_view packed, std::size_t most_bytes);

}  // namespace hbmwire::tools::doctor
