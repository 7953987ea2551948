// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"
#include "emulation/tests/nic/work_request.hpp"

/// Memory with relaxed ordering. Runs with --async=1ms --like-hardware relaxed.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kBytes = 65536;
constexpr int kRelaxed = kAllAccess | static_cast<int>(IBV_ACCESS_RELAXED_ORDERING);

Endpoint::Options with_access(int access) {
  Endpoint::Options options;
  options.mr_access = access;
  return options;
}

/// Polls for the last byte of a buffer that a WRITE fills with 1, the next with 2, and so on.
/// Counts the rounds in which other bytes were not there yet.
class Poller {
 public:
  explicit Poller(const unsigned char* buffer) : thread_([this, buffer] { run(buffer); }) {}

  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  Poller(Poller&&) = delete;
  Poller& operator=(Poller&&) = delete;

  ~Poller() { finish(); }

  int finish() {
    ended_.store(true);
    if (thread_.joinable()) thread_.join();
    return early_.load();
  }

  [[nodiscard]] int early() const { return early_.load(); }

  /// The number of rounds that it has seen.
  [[nodiscard]] int seen() const { return seen_.load(); }

 private:
  void run(const unsigned char* buffer) {
    unsigned char next = 1;
    while (!ended_.load()) {
      if (polled(buffer + kBytes - 1) != next) {
        std::this_thread::yield();
        continue;
      }
      bool all_there = true;
      for (std::uint32_t at = 0; at < kBytes; at += 4096)
        all_there = polled(buffer + at) == next && all_there;
      if (!all_there) early_.fetch_add(1);
      ++next;
      seen_.fetch_add(1);
    }
  }

  std::atomic<bool> ended_{false};
  std::atomic<int> seen_{0};
  std::atomic<int> early_{0};
  std::thread thread_;
};

/// Fills the buffer by WRITEs with 1, 2, 3 ... up to `most`, and counts the rounds in which the
/// last byte was early. All bytes must be there when a WRITE completes. With `until_one`, ends
/// after the first such round.
int count_early(int access, int most, bool until_one) {
  Pair pair({}, with_access(access));
  Poller poller(pair.b.buffer.data());
  for (int round = 1; round <= most && !(until_one && poller.early() > 0); ++round) {
    std::memset(pair.a.buffer.data(), round, kBytes);
    EXPECT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, kBytes, pair.b.address()), 0);
    expect_completion(pair.a, 1);
    EXPECT_EQ(std::memcmp(pair.a.buffer.data(), pair.b.buffer.data(), kBytes), 0);
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (poller.seen() < round && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    if (poller.seen() != round) {
      ADD_FAILURE() << "the poller has seen " << poller.seen() << " of " << round << " rounds";
      break;
    }
  }
  return poller.finish();
}

/// Each round is only a chance: the poller must look within the microseconds of the copy. On a busy
/// machine it may miss hundreds of rounds.
TEST(Relaxed, TheLastBytesOfAWriteMayLandFirst) { EXPECT_GT(count_early(kRelaxed, 5000, true), 0); }

TEST(Relaxed, WithoutTheFlagTheLastBytesLandLast) {
  EXPECT_EQ(count_early(kAllAccess, 100, false), 0);
}

TEST(Relaxed, AMessageIsThereWithItsCompletion) {
  Pair pair({}, with_access(kRelaxed));
  for (int round = 1; round <= 50; ++round) {
    std::memset(pair.a.buffer.data(), round, kBytes);
    ASSERT_EQ(pair.b.post_recv(1, 0, kBytes), 0);
    ASSERT_EQ(pair.a.send(2, 0, kBytes), 0);
    expect_completion(pair.b, 1);
    ASSERT_EQ(std::memcmp(pair.a.buffer.data(), pair.b.buffer.data(), kBytes), 0);
    expect_completion(pair.a, 2);
  }
}

/// The number of rounds, of 40, in which the first of two WRITEs to the same bytes remains.
int count_swapped(int access) {
  Pair pair({}, with_access(access));
  int swapped = 0;
  for (int round = 0; round < 40; ++round) {
    std::memset(pair.a.buffer.data(), 'a', 64);
    std::memset(pair.a.buffer.data() + 64, 'b', 64);
    EXPECT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 64, pair.b.address()), 0);
    EXPECT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 64, 64, pair.b.address()), 0);
    expect_completion(pair.a, 1);
    expect_completion(pair.a, 2);
    if (pair.b.buffer[0] == 'a') ++swapped;
  }
  return swapped;
}

TEST(Relaxed, TwoWritesMayLandSwapped) { EXPECT_GT(count_swapped(kRelaxed), 0); }

TEST(Relaxed, WithoutTheFlagWritesLandInOrder) { EXPECT_EQ(count_swapped(kAllAccess), 0); }

}  // namespace
}  // namespace hbmwire::test
