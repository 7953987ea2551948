// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hbmwire::tools::wire {

/// A message lists its fields once, in the order on the wire, with their limits: messages.cpp has a
/// function `fields(codec, message)` for each. `codec` is a Writer or a Reader. Integers are
/// big-endian; texts and lists follow their length.
class Writer {
 public:
  template <std::unsigned_integral T>
  void number(const T& value, T /*least*/ = 0, T /*most*/ = std::numeric_limits<T>::max()) {
    for (std::size_t shift = 8 * sizeof(T); shift != 0; shift -= 8)
      bytes_.push_back(static_cast<std::byte>(std::uint64_t{value} >> (shift - 8) & 0xffU));
  }

  void number(const double& value) { number(std::bit_cast<std::uint64_t>(value)); }

  void flag(const bool& value) { number(static_cast<std::uint8_t>(value ? 1 : 0)); }

  template <class Enum>
  void choice(const Enum& value, Enum /*last*/) {
    number(static_cast<std::uint8_t>(value));
  }

  /// Writes at most `limit` characters.
  void text(const std::string& value, std::size_t limit) {
    const std::size_t size = std::min(value.size(), limit);
    number(static_cast<std::uint16_t>(size));
    for (const char c : value.substr(0, size)) bytes_.push_back(static_cast<std::byte>(c));
  }

  template <std::size_t N>
  void bytes(const std::array<std::uint8_t, N>& value) {
    for (const std::uint8_t byte : value) bytes_.push_back(static_cast<std::byte>(byte));
  }

  /// Writes a count of type Count, and at most `limit` items, each by `item(codec, one)`.
  template <std::unsigned_integral Count, class T, class Item>
  void list(const std::vector<T>& all, std::size_t limit, Item item) {
    const std::size_t size = std::min(all.size(), limit);
    number(static_cast<Count>(size));
    for (const T& one : std::span(all).first(size)) item(*this, one);
  }

  /// A relation between fields, which only Reader checks.
  void require(bool /*holds*/) noexcept {}

  [[nodiscard]] std::vector<std::byte> take() noexcept { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads fields from foreign bytes in the format of Writer. The first field that is incomplete or
/// outside its limits makes the reader fail for good: later fields read as zero, and complete()
/// returns false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  template <std::unsigned_integral T>
  void number(T& value, T least = 0, T most = std::numeric_limits<T>::max()) {
    std::uint64_t sum = 0;
    for (const std::byte byte : take(sizeof(T))) sum = sum << 8U | std::to_integer<unsigned>(byte);
    value = static_cast<T>(sum);
    require(value >= least && value <= most);
  }

  void number(double& value) {
    std::uint64_t bits = 0;
    number(bits);
    value = std::bit_cast<double>(bits);
    require(std::isfinite(value));
  }

  void flag(bool& value) {
    std::uint8_t number_of_it = 0;
    number(number_of_it, std::uint8_t{0}, std::uint8_t{1});
    value = number_of_it == 1;
  }

  /// Enumerators count from 1.
  template <class Enum>
  void choice(Enum& value, Enum last) {
    std::uint8_t number_of_it = 0;
    number(number_of_it, std::uint8_t{1}, static_cast<std::uint8_t>(last));
    value = static_cast<Enum>(number_of_it);
  }

  void text(std::string& value, std::size_t limit) {
    std::uint16_t size = 0;
    number(size);
    require(size <= limit);
    value.clear();
    for (const std::byte byte : take(size)) value.push_back(std::to_integer<char>(byte));
  }

  template <std::size_t N>
  void bytes(std::array<std::uint8_t, N>& value) {
    const auto taken = take(N);
    for (std::size_t i = 0; i < taken.size(); ++i)
      value.at(i) = std::to_integer<std::uint8_t>(taken[i]);
  }

  template <std::unsigned_integral Count, class T, class Item>
  void list(std::vector<T>& all, std::size_t limit, Item item) {
    Count size = 0;
    number(size);
    require(size <= limit);
    for (std::size_t left = size; left != 0 && !failed_; --left) item(*this, all.emplace_back());
  }

  void require(bool holds) noexcept { failed_ = failed_ || !holds; }

  /// Whether all fields were valid and no bytes are left.
  [[nodiscard]] bool complete() const noexcept { return !failed_ && bytes_.empty(); }

 private:
  /// The next `count` bytes. If there are fewer, returns none and fails.
  std::span<const std::byte> take(std::size_t count) noexcept {
    require(count <= bytes_.size());
    if (failed_) return {};
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

}  // namespace hbmwire::tools::wire
