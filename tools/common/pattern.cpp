// SPDX-License-Identifier: MIT
#include "tools/common/pattern.hpp"

#include <cassert>
#include <cstring>

namespace hbmwire::tools {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint32_t);
constexpr std::uint32_t kGolden = 0x9e3779b9;  // 2^32 / golden ratio: spreads small numbers

// lowbias32 of Chris Wellons. It is a bijection, so different positions have different words.
constexpr std::uint32_t mix(std::uint32_t x) noexcept {
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= 0x846ca68b;
  x ^= x >> 16;
  return x;
}

// Generates the words of one pattern; computes its constants once.
class Words {
 public:
  explicit Words(const Pattern& pattern) noexcept
      : salt_(mix(pattern.seed + static_cast<std::uint32_t>(pattern.tag) * kGolden) +
              (pattern.iteration >> 8) * kGolden),
        flip_((pattern.iteration & 0xff) * 0x01010101U),
        shift_(pattern.doubled ? 1 : 0) {}

  // The word before doubling. The xor gives each byte of the word a different value in each of 256
  // iterations.
  [[nodiscard]] std::uint32_t plain(std::uint64_t index) const noexcept {
    const auto high = static_cast<std::uint32_t>(index >> 32) * kGolden;
    return mix(static_cast<std::uint32_t>(index) + high + salt_) ^ flip_;
  }

  [[nodiscard]] std::uint32_t operator()(std::uint64_t index) const noexcept {
    return plain(index) << shift_;
  }

  [[nodiscard]] unsigned shift() const noexcept { return shift_; }

 private:
  std::uint32_t salt_;
  std::uint32_t flip_;
  unsigned shift_;
};

template <std::uint32_t kInvert>
void generate_words(const Pattern& pattern, std::uint64_t offset_bytes,
                    std::span<std::byte> out) noexcept {
  assert(offset_bytes % kWordBytes == 0);
  const Words words(pattern);
  const std::uint64_t first = offset_bytes / kWordBytes;
  const std::size_t count = out.size() / kWordBytes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = words(first + i) ^ kInvert;
    std::memcpy(out.data() + i * kWordBytes, &word, kWordBytes);
  }
  // Trailing bytes are cut off first, because each of them is doubled by itself.
  const std::uint32_t tail = words.plain(first + count);
  for (std::size_t i = count * kWordBytes, bit = 0; i < out.size(); ++i, bit += 8) {
    const std::uint32_t byte = ((tail >> bit) & 0xff) << words.shift();
    out[i] = static_cast<std::byte>((byte ^ kInvert) & 0xff);
  }
}

}  // namespace

void generate(const Pattern& pattern, std::uint64_t offset_bytes,
              std::span<std::byte> out) noexcept {
  generate_words<0>(pattern, offset_bytes, out);
}

void generate_poison(const Pattern& pattern, std::uint64_t offset_bytes,
                     std::span<std::byte> out) noexcept {
  generate_words<0xffffffff>(pattern, offset_bytes, out);
}

void double_integers(std::span<std::byte> bytes) noexcept {
  const std::size_t words_end = bytes.size() / kWordBytes * kWordBytes;
  for (std::size_t i = 0; i < words_end; i += kWordBytes) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, kWordBytes);
    word <<= 1;
    std::memcpy(bytes.data() + i, &word, kWordBytes);
  }
  for (std::size_t i = words_end; i < bytes.size(); ++i) bytes[i] <<= 1;
}

void Comparison::append(const Comparison& next) noexcept {
  if (wrong_bytes == 0 && next.wrong_bytes != 0) {
    offset_bytes = next.offset_bytes;
    expected = next.expected;
    got = next.got;
  }
  bytes += next.bytes;
  wrong_bytes += next.wrong_bytes;
}

Comparison compare(std::span<const std::byte> expected, std::span<const std::byte> got,
                   std::uint64_t offset_bytes) noexcept {
  assert(expected.size() == got.size());
  Comparison found{.bytes = got.size()};
  if (got.empty() || std::memcmp(expected.data(), got.data(), got.size()) == 0) return found;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (expected[i] == got[i]) continue;
    if (found.wrong_bytes++ != 0) continue;
    found.offset_bytes = offset_bytes + i;
    found.expected = std::to_integer<std::uint8_t>(expected[i]);
    found.got = std::to_integer<std::uint8_t>(got[i]);
  }
  return found;
}

}  // namespace hbmwire::tools
