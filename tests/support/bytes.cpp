// SPDX-License-Identifier: MIT
#include "tests/support/bytes.hpp"

#include <algorithm>
#include <cstring>

namespace hbmwire::test {

std::vector<std::byte> pattern(std::uint64_t size_bytes, unsigned seed) {
  std::vector<std::byte> bytes(size_bytes);
  // xorshift64*, which repeats no word in so few. Its state must not be 0, hence the + 1.
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::uint64_t at = 0; at < size_bytes; at += sizeof(x)) {
    x ^= x << 13U;
    x ^= x >> 7U;
    x ^= x << 17U;
    const std::uint64_t word = x * 0x2545f4914f6cdd1dULL;
    std::memcpy(bytes.data() + at, &word, std::min<std::uint64_t>(sizeof(word), size_bytes - at));
  }
  return bytes;
}

void overlay(std::span<std::byte> all, std::uint64_t offset, std::uint64_t from, unsigned seed,
             std::uint64_t length) {
  if (length == 0) return;
  const auto bytes = pattern(from + length, seed);
  std::memcpy(all.subspan(offset, length).data(), bytes.data() + from, length);
}

bool same_bytes(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

}  // namespace hbmwire::test
