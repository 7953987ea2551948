// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

namespace hbmwire::tools {

/// A range cut into messages that a connection can carry. All have `piece_bytes` except the last.
struct Pieces {
  std::uint64_t bytes = 0;
  std::uint64_t piece_bytes = 1;

  [[nodiscard]] std::uint64_t count() const noexcept {
    return bytes / piece_bytes + (bytes % piece_bytes != 0 ? 1 : 0);
  }

  [[nodiscard]] std::uint64_t offset(std::uint64_t index) const noexcept {
    return index * piece_bytes;
  }

  [[nodiscard]] std::uint64_t length(std::uint64_t index) const noexcept {
    return std::min(piece_bytes, bytes - offset(index));
  }
};

/// The division of either side's buffer. For an exchange: a half to send, and a half to receive.
/// For a file: two alternating pieces. Both sides must use the same layout, since each addresses
/// the other's buffer.
struct Layout {
  std::uint64_t size_bytes = 0;

  // Multiples of a page, so that no engine copies across a page that belongs to both halves.
  static constexpr std::uint64_t kAlignment = 4096;

  /// Offset of the second half, or of the second slot.
  [[nodiscard]] std::uint64_t second() const noexcept {
    return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  [[nodiscard]] std::uint64_t transmit() const noexcept { return 0; }

  [[nodiscard]] std::uint64_t receive() const noexcept { return second(); }

  [[nodiscard]] std::uint64_t slot(std::uint64_t index) const noexcept {
    return index % 2 == 0 ? 0 : second();
  }

  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return 2 * second(); }
};

}  // namespace hbmwire::tools
