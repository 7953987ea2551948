// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::wire {

/// Appends big-endian integers and length-prefixed texts.
class Writer {
 public:
  template <std::unsigned_integral T>
  void integer(T value) {
    for (std::size_t shift = 8 * sizeof(T); shift != 0; shift -= 8) {
      bytes_.push_back(static_cast<std::byte>(std::uint64_t{value} >> (shift - 8) & 0xffU));
    }
  }

  void bytes(std::span<const std::uint8_t> data) {
    for (const std::uint8_t byte : data) bytes_.push_back(static_cast<std::byte>(byte));
  }

  /// Writes a count (u16), then at most `limit` characters of `text`.
  void text(std::string_view text, std::size_t limit);

  /// Writes a count (u16), then all of `data`, which must be shorter than 65,536 bytes.
  void counted(std::span<const std::byte> data);

  /// Writes a count (u32), then all of `data`, which must be shorter than 4 GiB.
  void block(std::span<const std::byte> data);

  [[nodiscard]] std::vector<std::byte> take() noexcept { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads the output of Writer from untrusted bytes. The first read past the end, or over a limit,
/// makes the reader fail for good. Later reads return zeros, so that one call of complete() at the
/// end is enough.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> data) noexcept : data_(data) {}

  template <std::unsigned_integral T>
  T integer() {
    T value = 0;
    // A type of one byte must not be shifted by all its bits.
    for (const std::byte byte : take(sizeof(T))) {
      value = static_cast<T>(static_cast<T>(value << (sizeof(T) > 1 ? 8 : 0)) |
                             std::to_integer<T>(byte));
    }
    return value;
  }

  template <std::size_t N>
  std::array<std::uint8_t, N> bytes() {
    std::array<std::uint8_t, N> out{};
    std::size_t i = 0;
    for (const std::byte byte : take(N)) out.at(i++) = std::to_integer<std::uint8_t>(byte);
    return out;
  }

  std::string text(std::size_t limit);

  /// Reads a count (u16) and that many bytes. Fails if the count exceeds `limit`.
  std::vector<std::byte> counted(std::size_t limit);

  /// Reads a count (u32) and that many bytes. Fails if the count exceeds `limit`.
  std::vector<std::byte> block(std::size_t limit);

  /// Marks the input as bad, for a value that is well-formed but not allowed.
  void fail() noexcept { failed_ = true; }

  /// Whether all reads have succeeded and no byte is left.
  [[nodiscard]] bool complete() const noexcept { return !failed_ && data_.empty(); }

 private:
  /// The next `count` bytes. If there are fewer, fails and returns none.
  std::span<const std::byte> take(std::size_t count) noexcept;

  std::vector<std::byte> bounded(std::size_t length, std::size_t limit);

  std::span<const std::byte> data_;
  bool failed_ = false;
};

}  // namespace hbmwire::wire
