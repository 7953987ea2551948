// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/endpoint.hpp"

/// The number of copies of a message's bytes, and that they arrive with every way of copying.
namespace hbmwire::test {
namespace {

/// The bytes that are copied while `transfer` runs.
template <typename Transfer>
std::uint64_t copied_by(Transfer transfer) {
  const std::uint64_t before = copied_bytes();
  transfer();
  return copied_bytes() - before;
}

/// Another process that lends its memory until this object is gone, and a connected endpoint here.
/// The memory is private to the other process or, with `memfd`, that file of this process.
class Target {
 public:
  explicit Target(std::size_t bytes, int memfd = -1)
      : child_([bytes, memfd](const Line& line) {
          Endpoint b({.bytes = bytes});
          const Mr shared(
              memfd < 0 ? nullptr : ibv_reg_dmabuf_mr(b.pd.get(), 0, bytes, 0, memfd, kAllAccess));
          Address mine = b.address();
          if (shared != nullptr) {
            mine.buffer = 0;
            mine.rkey = shared->rkey;
          }
          line.send(mine);
          b.connect(line.receive<Address>());
          EXPECT_EQ(b.post_recv(1, 0, static_cast<std::uint32_t>(bytes)), 0);
          line.send(true);
          line.receive<bool>();
        }),
        a_({.bytes = bytes}) {
    there_ = child_.line().receive<Address>();
    child_.line().send(a_.address());
    a_.connect(there_);
    child_.line().receive<bool>();
    for (std::size_t i = 0; i < bytes; ++i)
      a_.buffer[i] = static_cast<unsigned char>(i * 31 + (i >> 8U));
  }

  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  Target(Target&&) = delete;
  Target& operator=(Target&&) = delete;

  ~Target() { child_.line().send(true); }

  Endpoint& here() { return a_; }

  void rdma(ibv_wr_opcode opcode, std::size_t offset, std::uint32_t length) {
    ASSERT_EQ(a_.rdma(opcode, 1, offset, length, there_, offset), 0);
    expect_completion(a_, 1);
  }

 private:
  Child child_;
  Endpoint a_;
  Address there_;
};

TEST(Copies, EachByteIsCopiedOnceToPrivateMemory) {
  Target target(kMiB);
  for (const std::uint32_t length : {1025U, 65536U, 1U << 20U}) {
    EXPECT_EQ(copied_by([&] { target.rdma(IBV_WR_RDMA_WRITE, 0, length); }), length);
    EXPECT_EQ(copied_by([&] { target.rdma(IBV_WR_RDMA_READ, 0, length); }), length);
  }
  EXPECT_EQ(copied_by([&] {
              ASSERT_EQ(target.here().send(2, 0, kMiB), 0);
              expect_completion(target.here(), 2);
            }),
            kMiB);
}

TEST(Copies, EachByteIsCopiedOnceToSharedMemory) {
  const Fd memfd(::memfd_create("copies", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memfd.get(), kMiB), 0);
  Target target(kMiB, memfd.get());
  for (const std::uint32_t length : {1025U, 65536U, 1U << 20U}) {
    EXPECT_EQ(copied_by([&] { target.rdma(IBV_WR_RDMA_WRITE, 0, length); }), length);
    EXPECT_EQ(copied_by([&] { target.rdma(IBV_WR_RDMA_READ, 0, length); }), length);
  }
}

/// Large messages are copied in special ways once more bytes were written than the caches hold.
/// Every length and alignment around the block sizes of these ways arrives, and no other byte
/// changes.
TEST(Copies, LargeMessagesArriveAlsoPastTheCaches) {
  constexpr std::size_t kBytes = 16 * kMiB;
  const Fd memfd(::memfd_create("copies", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memfd.get(), kBytes), 0);
  const auto* there = static_cast<const unsigned char*>(
      ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, memfd.get(), 0));
  Target target(kBytes, memfd.get());
  target.rdma(IBV_WR_RDMA_WRITE, 0, kBytes);
  EXPECT_EQ(std::memcmp(there, target.here().buffer.data(), kBytes), 0);
  std::vector<unsigned char> expected(target.here().buffer);
  std::size_t offset = 0;
  // Each round overwrites another place.
  for (const std::uint32_t extra : {0U, 1U, 7U, 63U, 64U, 4095U, 16383U, 16384U + 65U}) {
    offset += 2 * kMiB - extra / 2;
    for (std::size_t i = 0; i < kBytes; ++i) target.here().buffer[i] ^= 0x5aU;
    const std::uint32_t length = kMiB / 2 + extra;
    std::copy_n(target.here().buffer.data() + offset, length, expected.data() + offset);
    target.rdma(IBV_WR_RDMA_WRITE, offset, length);
    EXPECT_EQ(std::memcmp(there, expected.data(), kBytes), 0) << offset << ", " << length;
    offset %= 8 * kMiB;
  }
}

}  // namespace
}  // namespace hbmwire::test
