// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace hbmwire::detail {

/// A queue of a fixed size, a power of two. The caller sees to it that push() finds it not full,
/// and front() and pop() not empty.
template <class T>
class Ring {
 public:
  explicit Ring(std::uint32_t at_least) : entries_(std::bit_ceil(at_least)) {}

  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }

  [[nodiscard]] bool full() const noexcept { return end_ - begin_ == entries_.size(); }

  [[nodiscard]] T& front() noexcept { return entries_[begin_ & mask()]; }

  void push(const T& entry) noexcept { entries_[end_++ & mask()] = entry; }

  void pop() noexcept { ++begin_; }

  void clear() noexcept { begin_ = end_; }

 private:
  [[nodiscard]] std::uint32_t mask() const noexcept {
    return static_cast<std::uint32_t>(entries_.size()) - 1;
  }

  std::vector<T> entries_;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace hbmwire::detail
