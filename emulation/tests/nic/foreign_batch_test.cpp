// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulation/nic/memory/mover.hpp"

namespace {

// The ranges that were passed to the kernel, and the most bytes that it moves in one call.
std::vector<std::size_t> ranges_there;
std::size_t most_bytes = SIZE_MAX;

/// The first `most_bytes` of some ranges.
std::vector<iovec> cut(const iovec* ranges, unsigned long count) {
  std::vector<iovec> taken;
  std::size_t left = most_bytes;
  for (unsigned long i = 0; i < count && left != 0; ++i) {
    taken.push_back({ranges[i].iov_base, std::min(ranges[i].iov_len, left)});
    left -= taken.back().iov_len;
  }
  return taken;
}

ssize_t call(long number, pid_t pid, const iovec* here, unsigned long here_count,
             const iovec* there, unsigned long there_count) {
  ranges_there.push_back(there_count);
  const auto some_here = cut(here, here_count);
  const auto some_there = cut(there, there_count);
  return ::syscall(number, pid, some_here.data(), some_here.size(), some_there.data(),
                   some_there.size(), 0);
}

}  // namespace

// Replaces the C library's function, which the emulated NIC calls.
extern "C" ssize_t process_vm_writev(pid_t pid, const iovec* here, unsigned long here_count,
                                     const iovec* there, unsigned long there_count,
                                     unsigned long /*flags*/) noexcept {
  return call(SYS_process_vm_writev, pid, here, here_count, there, there_count);
}

extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* here, unsigned long here_count,
                                    const iovec* there, unsigned long there_count,
                                    unsigned long /*flags*/) noexcept {
  return call(SYS_process_vm_readv, pid, here, here_count, there, there_count);
}

namespace hbmwire::emulation::nic {
namespace {

/// Moves bytes between `here_` and the "other" process' `there_`. This process is the other one
/// too.
class ForeignBatch : public ::testing::Test {
 protected:
  ForeignBatch() {
    ranges_there.clear();
    most_bytes = SIZE_MAX;
    for (std::size_t i = 0; i < here_.size(); ++i) here_[i] = static_cast<unsigned char>(i);
  }

  [[nodiscard]] Segment here(std::size_t at, std::size_t length) {
    return plain_segment(reinterpret_cast<std::uint64_t>(&here_[at]), length);
  }

  [[nodiscard]] Segment there(std::size_t at, std::size_t length) {
    return plain_segment(reinterpret_cast<std::uint64_t>(&there_[at]), length, ::getpid());
  }

  static SegmentList list(std::initializer_list<Segment> segments) {
    SegmentList all;
    for (const Segment& segment : segments) all.add(segment);
    return all;
  }

  std::array<unsigned char, 256> here_{};
  std::array<unsigned char, 256> there_{};
};

TEST_F(ForeignBatch, AdjacentBytesAreOneRange) {
  ASSERT_EQ(move_bytes(list({there(8, 100)}), list({here(0, 48), here(60, 8)})), 0);
  EXPECT_EQ(ranges_there, (std::vector<std::size_t>{1}));
  EXPECT_TRUE(std::equal(&there_[8], &there_[56], &here_[0]));
  EXPECT_TRUE(std::equal(&there_[56], &there_[64], &here_[60]));
  EXPECT_EQ(there_[64], 0);
}

TEST_F(ForeignBatch, BytesFromOnePlaceAreOneRange) {
  for (std::size_t i = 0; i < there_.size(); ++i) there_[i] = static_cast<unsigned char>(~i);
  ASSERT_EQ(move_bytes(list({here(0, 10), here(20, 10)}), list({there(100, 20)})), 0);
  EXPECT_EQ(ranges_there, (std::vector<std::size_t>{1}));
  EXPECT_TRUE(std::equal(&here_[0], &here_[10], &there_[100]));
  EXPECT_EQ(here_[10], 10);
  EXPECT_TRUE(std::equal(&here_[20], &here_[30], &there_[110]));
}

TEST_F(ForeignBatch, SeparateBytesAreSeveralRanges) {
  ASSERT_EQ(move_bytes(list({there(0, 10), there(11, 10)}), list({here(30, 20)})), 0);
  EXPECT_EQ(ranges_there, (std::vector<std::size_t>{2}));
  EXPECT_TRUE(std::equal(&there_[0], &there_[10], &here_[30]));
  EXPECT_EQ(there_[10], 0);
  EXPECT_TRUE(std::equal(&there_[11], &there_[21], &here_[40]));
}

TEST_F(ForeignBatch, GoesOnWhereTheKernelStopped) {
  for (const std::size_t most : {1U, 3U, 7U, 10U, 16U, 17U, 39U}) {
    SCOPED_TRACE(most);
    there_.fill(0);
    most_bytes = most;
    ASSERT_EQ(move_bytes(list({there(0, 10), there(10, 7), there(20, 23)}),
                         list({here(100, 17), here(150, 3), here(160, 20)})),
              0);
    EXPECT_TRUE(std::equal(&there_[0], &there_[17], &here_[100]));
    EXPECT_TRUE(std::equal(&there_[20], &there_[23], &here_[150]));
    EXPECT_TRUE(std::equal(&there_[23], &there_[43], &here_[160]));
    EXPECT_EQ(there_[43], 0);
  }
}

}  // namespace
}  // namespace hbmwire::emulation::nic
