// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <random>

#include "emulation/tests/nic/emulated_card.hpp"

/// Compares PostedWrites, behind --like-hardware=flush, with a model that treats each byte by
/// itself.
namespace hbmwire::test {
namespace {

using emulation::PostedWrites;

constexpr std::uint64_t kBytes = 64;

/// The bytes that NICs see, the bytes that engines see, and the NIC that has posted each byte.
struct Model {
  std::array<std::byte, kBytes> nics{};
  std::array<std::byte, kBytes> engines{};
  std::array<std::uint32_t, kBytes> under_way{};

  void arrive(std::uint32_t nic) {
    for (std::uint64_t i = 0; i < kBytes; ++i) {
      if (under_way[i] != nic) continue;
      under_way[i] = 0;
      engines[i] = nics[i];
    }
  }

  void nic_writes(std::uint32_t nic, std::uint64_t from, std::uint64_t to, std::byte value) {
    for (std::uint64_t i = from; i < to; ++i) {
      if (under_way[i] != 0 && under_way[i] != nic) arrive(under_way[i]);
    }
    for (std::uint64_t i = from; i < to; ++i) {
      under_way[i] = nic;
      nics[i] = value;
    }
  }

  void engine_writes(std::uint64_t from, std::uint64_t to, std::byte value) {
    for (std::uint64_t i = from; i < to; ++i) {
      engines[i] = value;
      if (under_way[i] == 0) nics[i] = value;  // a NIC's write under way arrives over this one
    }
  }
};

class PostedWritesModel : public testing::Test {
 protected:
  EmulatedCard card_;  // owns its files
  std::byte* const memory_ = card_.at(0);
  PostedWrites& writes_ = card_.writes();
};

TEST_F(PostedWritesModel, EveryByteIsWhereTheModelHasIt) {
  std::mt19937 random(4);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 200; ++round) {
    Model model;
    writes_.clear();
    std::memset(memory_, 0, kBytes);
    for (int step = 0; step < 40; ++step) {
      const std::uint64_t from = below(kBytes);
      const std::uint64_t to = from + 1 + below(std::min<std::uint64_t>(kBytes - from, 20));
      const auto value = static_cast<std::byte>(1 + below(255));
      const auto nic = static_cast<std::uint32_t>(1 + below(3));
      const std::vector<std::byte> bytes(to - from, value);
      const PostedWrites::Range range{from, to - from, memory_ + from};
      switch (below(4)) {
        case 0:
          model.arrive(nic);
          writes_.arrive(nic);
          break;
        case 1:
          model.engine_writes(from, to, value);
          writes_.engine_writes(range, bytes.data());
          break;
        default:
          model.nic_writes(nic, from, to, value);
          writes_.post(nic, range);
          std::memset(memory_ + from, static_cast<int>(value), to - from);
      }
      std::array<std::byte, kBytes> seen{};
      writes_.engine_reads({0, kBytes, memory_}, seen.data());
      ASSERT_EQ(seen, model.engines) << "round " << round << " step " << step;
      ASSERT_EQ(std::memcmp(memory_, model.nics.data(), kBytes), 0) << "round " << round;
    }
  }
}

TEST_F(PostedWritesModel, MoreRangesThanItHoldsArriveEarlier) {
  constexpr std::uint64_t kRanges = 3000;
  for (std::uint64_t i = 0; i < kRanges; ++i) {
    writes_.post(1, {i * 16, 8, memory_ + i * 16});
    memory_[i * 16] = std::byte{'n'};
  }
  EXPECT_EQ(card_.engines_see(0), 'n');
  EXPECT_EQ(card_.engines_see((kRanges - 1) * 16), 'o');
  writes_.arrive_all();
  for (std::uint64_t i = 0; i < kRanges; ++i) ASSERT_EQ(card_.engines_see(i * 16), 'n') << i;
}

TEST_F(PostedWritesModel, RangesBeyondTheCardAreIgnored) {
  const std::uint64_t end = 96ULL << 30;  // the bytes of the card's memory
  writes_.post(1, {end, 1, memory_});
  writes_.post(1, {end - 1, 2, memory_});
  writes_.post(1, {0, 0, memory_});
  EXPECT_EQ(card_.engines_see(0), 'o');
}

/// Writers that are killed at any point leave no held lock, and only old or new bytes.
TEST_F(PostedWritesModel, AKilledWriterLeavesOldOrNewBytes) {
  constexpr std::uint64_t kUsed = 64 << 10;
  for (int round = 0; round < 50; ++round) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      for (std::uint64_t i = 0;; ++i) {
        const std::uint64_t offset = i * 4096 % (kUsed - 8192);
        writes_.post(1 + i % 2, {offset, 8000, memory_ + offset});
        std::memset(memory_ + offset, i % 2 == 0 ? 'n' : 'o', 8000);
        if (i % 7 == 0) writes_.arrive(1);
      }
    }
    // The first round waits until its writer is at work. Later ones cannot tell that by the byte.
    while (card_.nics_see(0) == 'o' && round == 0) ::sched_yield();
    ::usleep(static_cast<useconds_t>(100 + 37 * round));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    std::vector<std::byte> seen(kUsed);
    writes_.engine_reads({0, kUsed, memory_}, seen.data());
    const auto known = [](std::byte byte) {
      return byte == std::byte{'n'} || byte == std::byte{'o'};
    };
    ASSERT_TRUE(std::ranges::all_of(seen, known));
    writes_.arrive_all();
    writes_.engine_reads({0, kUsed, memory_}, seen.data());
    ASSERT_EQ(std::memcmp(seen.data(), memory_, kUsed), 0);
  }
}

}  // namespace
}  // namespace hbmwire::test
