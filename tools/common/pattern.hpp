// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hbmwire::tools {

/// The operation that a pattern is for. Different operations have different contents.
enum class Tag : std::uint32_t { send = 1, write = 2, read = 3 };

/// Contents that both sides can compute. Each offset that is a multiple of 4 holds a little-endian
/// 32-bit integer, which depends on the offset, the iteration, the tag and the seed. Up to 3 bytes
/// left at the end come from the next integer. Within iterations 0 to 255 (256 to 511, ...), a byte
/// at a given offset has a different value in each iteration.
struct Pattern {
  std::uint32_t seed = 0;
  std::uint32_t iteration = 0;
  Tag tag = Tag::send;
  bool doubled = false;  ///< as after double_integers()
};

/// Generates the bytes of `pattern` from `offset_bytes` on, which must be a multiple of 4. Only the
/// last part of a buffer may have a size that is not a multiple of 4.
void generate(const Pattern& pattern, std::uint64_t offset_bytes,
              std::span<std::byte> out) noexcept;

/// Generates bytes that all differ from the pattern at their place, so that bytes which never
/// arrive are found.
void generate_poison(const Pattern& pattern, std::uint64_t offset_bytes,
                     std::span<std::byte> out) noexcept;

/// The server's operation on received bytes: doubles each 32-bit integer modulo 2^32, and each
/// trailing byte modulo 256.
void double_integers(std::span<std::byte> bytes) noexcept;

/// The result of a comparison.
struct Comparison {
  std::uint64_t bytes = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t offset_bytes = 0;  ///< offset of the first wrong byte
  std::uint8_t expected = 0;
  std::uint8_t got = 0;

  /// Adds the result for the bytes that follow.
  void append(const Comparison& next) noexcept;
  bool operator==(const Comparison&) const = default;
};

/// Compares every byte. Both spans have the same size; they begin at `offset_bytes` of the buffer.
Comparison compare(std::span<const std::byte> expected, std::span<const std::byte> got,
                   std::uint64_t offset_bytes) noexcept;

static_assert(std::endian::native == std::endian::little,
              "patterns are made with the CPU's own integers");

}  // namespace hbmwire::tools
