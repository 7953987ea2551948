// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hbmwire::tools {

/// What a pattern is for: operations never share their contents.
enum class Tag : std::uint32_t { send = 1, write = 2, read = 3 };

/// Contents that both sides can compute: a little-endian 32-bit integer at each offset that is a
/// multiple of 4, which depends on the offset, the iteration, the tag and the seed; up to 3 bytes
/// left at the end come from the next integer. In iterations 0 to
/// 255 (256 to 511, ...) a byte never has the value that it has at its place in another of these.
struct Pattern {
  std::uint32_t seed = 0;
  std::uint32_t iteration = 0;
  Tag tag = Tag::send;
  bool doubled = false;  ///< as double_integers() leaves it
};

/// The bytes of `pattern` from `offset_bytes` on, which is a multiple of 4. A size that is not a
/// multiple of 4 ends the buffer.
void generate(const Pattern& pattern, std::uint64_t offset_bytes,
              std::span<std::byte> out) noexcept;

/// Bytes none of which is the pattern's at its place, so that a byte that never arrives is seen.
void generate_poison(const Pattern& pattern, std::uint64_t offset_bytes,
                     std::span<std::byte> out) noexcept;

/// What the server does with what it received: each 32-bit integer doubled modulo 2^32, the
/// trailing bytes modulo 256.
void double_integers(std::span<std::byte> bytes) noexcept;

/// What a comparison found.
struct Comparison {
  std::uint64_t bytes = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t offset_bytes = 0;  ///< of the first wrong byte
  std::uint8_t expected = 0;
  std::uint8_t got = 0;

  /// Adds what was found in the bytes that follow.
  void append(const Comparison& next) noexcept;
  bool operator==(const Comparison&) const = default;
};

/// Compares every byte; `offset_bytes` is where the spans (of one size) begin in the buffer.
Comparison compare(std::span<const std::byte> expected, std::span<const std::byte> got,
                   std::uint64_t offset_bytes) noexcept;

static_assert(std::endian::native == std::endian::little,
              "patterns are made with the CPU's own integers");

}  // namespace hbmwire::tools
