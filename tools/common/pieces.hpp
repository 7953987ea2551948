// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

namespace hbmwire::tools {

/// A range cut into messages that a connection can carry: all of `piece_bytes` but the last.
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

/// How the buffer of either side is divided. Exchange: what is sent, and what is received. File:
/// two pieces in turn. Both sides must agree on it, since each addresses the other's.
struct Layout {
  std::uint64_t size_bytes = 0;

  // Page multiples, so that no engine has to copy across a page that both halves share.
  static constexpr std::uint64_t kAlignment = 4096;

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
