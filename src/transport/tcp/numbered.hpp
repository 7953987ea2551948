// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace hbmwire::transport {

/// A queue of fixed size, whose entries keep their numbers.
template <class T>
struct Numbered {
  explicit Numbered(std::uint32_t at_least) : entries(std::bit_ceil(at_least)) {}

  [[nodiscard]] T& operator[](std::uint32_t number) noexcept {
    return entries[number & (entries.size() - 1)];
  }

  [[nodiscard]] std::uint32_t size() const noexcept { return end - first; }

  [[nodiscard]] bool empty() const noexcept { return first == end; }

  [[nodiscard]] bool full() const noexcept { return size() == entries.size(); }

  [[nodiscard]] bool holds(std::uint32_t number) const noexcept { return number - first < size(); }

  void push(const T& entry) noexcept {
    (*this)[end] = entry;
    ++end;
  }

  std::vector<T> entries;
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

}  // namespace hbmwire::transport
