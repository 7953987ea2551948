// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "emulation/tests/nic/window_steps.hpp"

/// man ibv_rereg_mr, and zero-based MRs.
namespace hbmwire::test {
namespace {

constexpr int kTranslation = IBV_REREG_MR_CHANGE_TRANSLATION;
constexpr int kPd = IBV_REREG_MR_CHANGE_PD;
constexpr int kAccess = IBV_REREG_MR_CHANGE_ACCESS;
constexpr int kReadOnly = IBV_ACCESS_REMOTE_READ;

/// Reads or writes from a through b's MR, with its present key. Returns the status that a gets.
ibv_wc_status reach_region(Pair& pair, ibv_wr_opcode opcode, std::size_t offset) {
  return reach(pair, opcode, pair.b.mr->rkey, offset);
}

TEST(Reregister, ChangesAccess) {
  Pair pair({}, {.mr_access = kReadOnly});
  ASSERT_EQ(ibv_rereg_mr(pair.b.mr.get(), kAccess, nullptr, nullptr, 0, kAllAccess), 0);
  EXPECT_EQ(reach_region(pair, IBV_WR_RDMA_WRITE, 0), IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_rereg_mr(pair.b.mr.get(), kAccess, nullptr, nullptr, 0, kReadOnly), 0);
  EXPECT_EQ(reach_region(pair, IBV_WR_RDMA_READ, 0), IBV_WC_SUCCESS);
  EXPECT_EQ(reach_region(pair, IBV_WR_RDMA_WRITE, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST(Reregister, ChangesTranslation) {
  Pair pair;
  std::vector<unsigned char> other(8192, 9);
  const std::uint32_t before = pair.b.mr->rkey;
  ASSERT_EQ(ibv_rereg_mr(pair.b.mr.get(), kTranslation, nullptr, other.data(), other.size(), 0), 0);
  EXPECT_EQ(pair.b.mr->addr, other.data());
  EXPECT_EQ(pair.b.mr->length, other.size());
  Address target;
  target.buffer = reinterpret_cast<std::uint64_t>(other.data());
  target.rkey = pair.b.mr->rkey;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 1, 0, 1, target, 8191), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.a.buffer[0], 9);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_READ, before, 0), IBV_WC_REM_ACCESS_ERR)
      << "the key of the old range";
}

TEST(Reregister, ChangesTheLocalKeysRangeToo) {
  Pair pair;
  std::vector<unsigned char> other(64, 9);
  ASSERT_EQ(ibv_rereg_mr(pair.a.mr.get(), kTranslation, nullptr, other.data(), other.size(), 0), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = pair.b.address().buffer;
  request.wr.rdma.rkey = pair.b.mr->rkey;
  const auto start = reinterpret_cast<std::uint64_t>(other.data());
  ASSERT_EQ(pair.a.post(request, {{start, 64, pair.a.mr->lkey}}), 0);
  expect_completion(pair.a, 0);
  EXPECT_EQ(pair.b.buffer[63], 9);
  ASSERT_EQ(pair.a.post(request, {{start, 65, pair.a.mr->lkey}}), 0);
  expect_completion(pair.a, 0, IBV_WC_LOC_PROT_ERR);
}

TEST(Reregister, ChangesTheProtectionDomain) {
  Pair pair;
  Pd pd(ibv_alloc_pd(pair.b.context.get()));
  ASSERT_EQ(ibv_rereg_mr(pair.b.mr.get(), kPd, pd.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(pair.b.mr->pd, pd.get());
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  EXPECT_EQ(reach_region(pair, IBV_WR_RDMA_READ, 0), IBV_WC_REM_ACCESS_ERR);
  pair.b.mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

TEST(Reregister, ChangesAllAtOnce) {
  Pair pair({}, {.mr_access = kReadOnly});
  const Pd pd(ibv_alloc_pd(pair.b.context.get()));
  std::vector<unsigned char> other(4096, 9);
  ASSERT_EQ(ibv_rereg_mr(pair.b.mr.get(), kPd, pd.get(), nullptr, 0, 0), 0);
  ASSERT_EQ(ibv_rereg_mr(pair.b.mr.get(), kTranslation | kPd | kAccess, pair.b.pd.get(),
                         other.data(), other.size(), kAllAccess),
            0);
  pair.a.buffer[0] = 0x42;
  Address target;
  target.buffer = reinterpret_cast<std::uint64_t>(other.data());
  target.rkey = pair.b.mr->rkey;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, target), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(other[0], 0x42);
}

TEST(Reregister, WrongArgumentsAreRefusedByLibibverbs) {
  Endpoint a;
  constexpr int kUnknown = 8;
  EXPECT_EQ(ibv_rereg_mr(a.mr.get(), kUnknown, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(a.mr.get(), kTranslation, nullptr, a.buffer.data(), 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(a.mr.get(), kPd, a.pd.get(), nullptr, 0, kReadOnly),
            IBV_REREG_MR_ERR_INPUT);
  const Fd memfd(::memfd_create("rereg", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memfd.get(), 4096), 0);
  const Mr dmabuf(ibv_reg_dmabuf_mr(a.pd.get(), 0, 4096, 0, memfd.get(), kAllAccess));
  ASSERT_NE(dmabuf, nullptr);
  EXPECT_EQ(ibv_rereg_mr(dmabuf.get(), kAccess, nullptr, nullptr, 0, kReadOnly),
            IBV_REREG_MR_ERR_INPUT);
}

/// A refusal leaves the MR as it was, as the kernel's does.
TEST(Reregister, ARefusalByTheDeviceChangesNothing) {
  Pair pair;
  ibv_mr* mr = pair.b.mr.get();
  const auto refused = [&](int flags, ibv_pd* pd, void* address, std::size_t length, int access,
                           int error) {
    errno = 0;
    EXPECT_EQ(ibv_rereg_mr(mr, flags, pd, address, length, access), IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, error);
  };
  // The flags, then the new domain, address, length and access; then the errno.
  refused(0, nullptr, nullptr, 0, 0, EINVAL);
  refused(kPd, nullptr, nullptr, 0, 0, EINVAL);
  refused(kAccess, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL);
  const Context other = open_device();
  const Pd foreign(ibv_alloc_pd(other.get()));
  refused(kPd, foreign.get(), nullptr, 0, 0, EINVAL);
  refused(kTranslation, nullptr, reinterpret_cast<void*>(0x1000000000000), 4096, 0, EFAULT);
  void* read_only = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  refused(kTranslation, nullptr, read_only, 4096, 0, EFAULT);
  EXPECT_EQ(
      ibv_rereg_mr(mr, kTranslation | kAccess, nullptr, pair.b.buffer.data(), 4096, kAllAccess), 0);
  EXPECT_EQ(reach_region(pair, IBV_WR_RDMA_WRITE, 0), IBV_WC_SUCCESS);
  ::munmap(read_only, 4096);
  fail_nth_call(0, ENOMEM);
  refused(kAccess, nullptr, nullptr, 0, 0, ENOMEM);
  fail_nth_call(-1, 0);
}

TEST(Reregister, IsRefusedWhileAWindowIsBound) {
  WindowPair pair;
  Mw window = bound_type_2(pair.b, part_of(pair.b, 0, 64, kRemoteWrite));
  EXPECT_EQ(ibv_rereg_mr(pair.b.mr.get(), kAccess, nullptr, nullptr, 0, kBindable),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 0), IBV_WC_SUCCESS);
  window.reset();
  EXPECT_EQ(ibv_rereg_mr(pair.b.mr.get(), kAccess, nullptr, nullptr, 0, kBindable), 0);
}

/// A program may reuse the old range after ibv_rereg_mr: no WRITE arrives there any more.
TEST(Reregister, WaitsForInboundWrites) {
  constexpr std::size_t kBytes = 32 << 20;
  Pair pair({.bytes = kBytes}, {.bytes = kBytes});
  const Address target = pair.b.address();
  pair.a.buffer.assign(kBytes, 1);
  std::thread writer([&] {
    for (std::uint64_t id = 0;; ++id) {
      if (pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, kBytes, target) != 0) return;
      const auto completion = pair.a.wait();
      if (!completion || completion->status != IBV_WC_SUCCESS) return;
    }
  });
  usleep(20000);
  std::vector<unsigned char> other(4096);
  ASSERT_EQ(ibv_rereg_mr(pair.b.mr.get(), kTranslation, nullptr, other.data(), other.size(), 0), 0);
  std::fill(pair.b.buffer.begin(), pair.b.buffer.end(), 2);
  writer.join();
  for (const unsigned char byte : pair.b.buffer) ASSERT_EQ(byte, 2);
}

TEST(ZeroBasedRegion, IsReachedByOffsets) {
  Pair pair({}, {.mr_access = kAllAccess | IBV_ACCESS_ZERO_BASED});
  Address target;
  target.rkey = pair.b.mr->rkey;
  pair.a.buffer[0] = 0x24;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, target, 65535), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[65535], 0x24);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 2, target, 65535), 0);
  expect_completion(pair.a, 2, IBV_WC_REM_ACCESS_ERR);
}

TEST(ZeroBasedRegion, TakesNoWindow) {
  WindowPair pair(kBindable | IBV_ACCESS_ZERO_BASED);
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
  ibv_mw_bind_info info = part_of(pair.b, 0, 64, kRemoteRead);
  info.addr = 0;
  ASSERT_EQ(bind_type_2(pair.b, window.get(), 1, info), 0);
  expect_completion(pair.b, 7, IBV_WC_MW_BIND_ERR);  // the bind's wr_id in window_steps.hpp
}

}  // namespace
}  // namespace hbmwire::test
