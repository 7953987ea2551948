// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/copy.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "emulation/common/copy_past_caches.hpp"

namespace hbmwire::emulation::nic {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr auto kUntouched = std::byte{0xee};

/// Memory that begins at a cache line, with a line before and after it.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes + 3 * kCacheLine, kUntouched) {}

  [[nodiscard]] std::byte* at(std::size_t offset) {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + kCacheLine + (kCacheLine - begin % kCacheLine) % kCacheLine + offset;
  }

 private:
  std::vector<std::byte> bytes_;
};

std::byte pattern(std::size_t i) { return static_cast<std::byte>(i * 7 % 251); }

using Copy = void (*)(void*, const void*, std::size_t);

/// Copies `bytes` from one offset to another, and expects that no byte beside them changes.
void expect_copied(Copy copy, std::size_t to, std::size_t from, std::size_t bytes) {
  Memory target(bytes + kCacheLine);
  Memory source(bytes + kCacheLine);
  for (std::size_t i = 0; i < bytes; ++i) *source.at(from + i) = pattern(i);
  copy(target.at(to), source.at(from), bytes);
  ASSERT_EQ(std::memcmp(target.at(to), source.at(from), bytes), 0)
      << bytes << " bytes from " << from << " to " << to;
  ASSERT_EQ(*(target.at(to) - 1), kUntouched) << bytes << " bytes to " << to;
  ASSERT_EQ(*target.at(to + bytes), kUntouched) << bytes << " bytes to " << to;
}

TEST(CopySmall, CopiesEachNumberOfBytesAndNoMore) {
  for (std::size_t bytes = 8; bytes <= 2200; ++bytes) {
    expect_copied(copy_small, 0, 0, bytes);
    expect_copied(copy_small, bytes % kCacheLine, bytes % 61, bytes);
  }
  expect_copied(copy_small, 0, 0, kSmall);
}

TEST(CopySmall, CopiesFromAndToEachPlaceInALine) {
  for (std::size_t to = 0; to < kCacheLine; ++to) {
    for (const std::size_t bytes : {8U, 9U, 63U, 64U, 65U, 72U, 127U, 136U, 1032U, 4096U})
      expect_copied(copy_small, to, (to * 5) % kCacheLine, bytes);
  }
}

TEST(CopyLarge, CopiesFromAndToEachPlaceInALine) {
  for (const Copy copy : {copy_through_caches, copy_past_caches, store_by_engine}) {
    for (const std::size_t place : {0U, 1U, 17U, 63U}) {
      for (const std::size_t bytes : {1U, 64U, 4095U, 16384U, 20000U, 65541U, 1048583U})
        expect_copied(copy, place, place / 2, bytes);
    }
  }
}

/// A poller that sees the last word of a copy sees everything before it.
TEST(CopySmall, StoresTheLastBytesLast) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a copy is no atomic store to thread sanitizer";
#endif
  constexpr std::size_t kWords = 65;
  constexpr std::uint64_t kRounds = 20000;
  alignas(kCacheLine) static std::atomic<std::uint64_t> target[kWords];
  std::uint64_t source[kWords];
  std::atomic<std::uint64_t> seen{0};
  std::uint64_t mixed = 0;
  std::jthread reader([&] {
    for (std::uint64_t last = 0; last != kRounds;) {
      // Each word must be at least as new as the last word of the copy.
      last = target[kWords - 1].load(std::memory_order_acquire);
      for (const auto& word : target)
        mixed += word.load(std::memory_order_relaxed) < last ? 1U : 0U;
      seen.store(last);
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    for (std::uint64_t& word : source) word = round;
    copy_small(target, source, sizeof source);
  }
  reader.join();
  EXPECT_EQ(seen.load(), kRounds);
  EXPECT_EQ(mixed, 0U);
}

}  // namespace
}  // namespace hbmwire::emulation::nic
