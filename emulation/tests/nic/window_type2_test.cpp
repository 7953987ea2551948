// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "emulation/tests/nic/window_steps.hpp"

/// Memory windows of type 2 (2B): man ibv_post_send; IBTA vol. 1, 10.6.7. The wr_ids are those of
/// window_steps.hpp: 7 for a bind and 8 for an invalidation.
namespace hbmwire::test {
namespace {

TEST(WindowType2, OpensTheRangeWithTheKeyThatWasGiven) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
  const std::uint32_t rkey = (window->rkey & ~0xffU) | ((window->rkey + 0x40U) & 0xffU);
  ASSERT_EQ(bind_type_2(pair.b, window.get(), rkey, part_of(pair.b, 100, 50, kRemoteWrite)), 0);
  EXPECT_EQ(expect_completion(pair.b, 7).opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, rkey, 100), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 100), IBV_WC_REM_ACCESS_ERR)
      << "the key before the bind";
}

TEST(WindowType2, TakesTheLowByteOfTheKeyOnly) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
  ASSERT_EQ(bind_type_2(pair.b, window.get(), 0xabcdef42, part_of(pair.b, 0, 50, kRemoteWrite)), 0);
  expect_completion(pair.b, 7);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, (window->rkey & ~0xffU) | 0x42U, 0), IBV_WC_SUCCESS);
}

TEST(WindowType2, MayBeZeroBased) {
  WindowPair pair;
  const Mw window =
      bound_type_2(pair.b, part_of(pair.b, 1000, 50, kRemoteWrite | IBV_ACCESS_ZERO_BASED));
  Address target = pair.b.address();
  target.buffer = 0;
  target.rkey = window->rkey;
  pair.a.buffer[0] = 0x33;
  // Four bytes at 46 are the last of the window's 50 bytes; at 47 they exceed its end by one.
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 4, target, 46), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[1046], 0x33);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 4, target, 47), 0);
  expect_completion(pair.a, 2, IBV_WC_REM_ACCESS_ERR);
}

TEST(WindowType2, CanBeBoundAgainOnlyAfterInvalidation) {
  WindowPair pair;
  const Mw window = bound_type_2(pair.b, part_of(pair.b, 0, 64, kRemoteWrite));
  ASSERT_EQ(invalidate(pair.b, window->rkey), 0);
  EXPECT_EQ(expect_completion(pair.b, 8).opcode, IBV_WC_LOCAL_INV);
  const std::uint32_t rkey = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(bind_type_2(pair.b, window.get(), rkey, part_of(pair.b, 64, 64, kRemoteWrite)), 0);
  expect_completion(pair.b, 7);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, rkey, 64), IBV_WC_SUCCESS);
  // A bind without an invalidation before it.
  ASSERT_EQ(bind_type_2(pair.b, window.get(), rkey + 1, part_of(pair.b, 0, 64, kRemoteWrite)), 0);
  expect_completion(pair.b, 7, IBV_WC_MW_BIND_ERR);
}

TEST(WindowType2, RefusesABindOfNoLength) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
  ibv_mw_bind_info nothing = part_of(pair.b, 0, 0, kRemoteRead);
  nothing.mr = nullptr;
  EXPECT_EQ(bind_type_2(pair.b, window.get(), 1, nothing), EINVAL);
  EXPECT_EQ(bind_type_2(pair.b, nullptr, 1, part_of(pair.b, 0, 8, kRemoteRead)), EINVAL);
  ASSERT_EQ(bind_type_2(pair.b, window.get(), 1, part_of(pair.b, 0, 0, kRemoteRead)), 0);
  expect_completion(pair.b, 7, IBV_WC_MW_BIND_ERR);
}

TEST(WindowType2, ServesOnlyTheQueuePairThatItWasBoundOn) {
  WindowPair pair;
  Endpoint elsewhere({.mr_access = kBindable});  // for its completion queue
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = elsewhere.cq.get();
  init.cap = {4, 4, 1, 1, 0};
  // A second QP of b's domain, connected to itself, binds the window. The WRITE through the window
  // arrives at the first QP, which is b's again by then.
  Qp binder(ibv_create_qp(pair.b.pd.get(), &init));
  ASSERT_NE(binder, nullptr);
  std::swap(pair.b.qp, binder);
  pair.b.connect(pair.b.address());
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
  const std::uint32_t rkey = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(bind_type_2(pair.b, window.get(), rkey, part_of(pair.b, 0, 64, kRemoteWrite)), 0);
  ibv_wc completion{};
  ASSERT_EQ(ibv_poll_cq(elsewhere.cq.get(), 1, &completion), 1);
  ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
  std::swap(pair.b.qp, binder);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, rkey, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST(WindowType2, IsNotBoundByAQueuePairOfAnotherDomain) {
  WindowPair pair;
  const Pd pd(ibv_alloc_pd(pair.b.context.get()));
  const Mr mr((ibv_reg_mr)(pd.get(), pair.b.buffer.data(), 64, kBindable));
  const Mw window(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2));
  ibv_mw_bind_info info = part_of(pair.b, 0, 64, kRemoteRead);
  info.mr = mr.get();
  ASSERT_EQ(bind_type_2(pair.b, window.get(), 1, info), 0);
  expect_completion(pair.b, 7, IBV_WC_MW_BIND_ERR);
}

TEST(WindowType2, OpensADmabuf) {
  WindowPair pair;
  const Fd memfd(::memfd_create("window", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memfd.get(), 8192), 0);
  // The file begins at the address 0x7000, and the window at 0x7100: byte 0x100 of the file.
  const Mr mr(ibv_reg_dmabuf_mr(pair.b.pd.get(), 0, 8192, 0x7000, memfd.get(), kBindable));
  ASSERT_NE(mr, nullptr);
  const Mw type_1 = alloc_window(pair.b, IBV_MW_TYPE_1);
  EXPECT_EQ(bind_type_1(pair.b, type_1.get(), {mr.get(), 0x7000, 64, kRemoteWrite}), EOPNOTSUPP);
  const Mw window = bound_type_2(pair.b, {mr.get(), 0x7100, 64, kRemoteWrite});
  Address target = pair.b.address();
  target.buffer = 0x7100;
  target.rkey = window->rkey;
  pair.a.buffer[0] = 0x21;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, target), 0);
  expect_completion(pair.a, 1);
  char there = 0;
  ASSERT_EQ(::pread(memfd.get(), &there, 1, 0x100), 1);
  EXPECT_EQ(there, 0x21);
}

TEST(WindowType2, TakesAtomics) {
  WindowPair pair;
  const Mw window = bound_type_2(pair.b, part_of(pair.b, 0, 64, IBV_ACCESS_REMOTE_ATOMIC));
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic.remote_addr = pair.b.address().buffer;
  request.wr.atomic.rkey = window->rkey;
  request.wr.atomic.compare_add = 3;
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 8)}), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[0], 3);
}

}  // namespace
}  // namespace hbmwire::test
