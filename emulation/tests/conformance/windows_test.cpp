// SPDX-License-Identifier: MIT
#include "emulation/tests/conformance/windows.hpp"

#include <gtest/gtest.h>

#include <vector>

/// Memory windows of both types: access through a bound window, and the binds that are allowed.
namespace hbmwire::conformance {
namespace {

TEST_P(Windows, HandlesReportTheirType) {
  EXPECT_EQ(mw->type, GetParam());
  EXPECT_EQ(mw->pd, nic.pd());
  EXPECT_EQ(mw->context, nic.context());
}

TEST_P(Windows, GiveAccessOnceBound) {
  bind(place(100, 200));
  link->a.fill(0, 200, 3);
  expect_access(IBV_WR_RDMA_WRITE, 100, 200, true);
  link->b.expect_filled(100, 200, 3);
  expect_access(IBV_WR_RDMA_READ, 100, 200, true);
}

TEST_P(Windows, GiveNoAccessBeforeTheyAreBound) { expect_access(IBV_WR_RDMA_WRITE, 0, 8, false); }

TEST_P(Windows, BeginAtTheirFirstByte) {
  bind(place(100, 200));
  expect_access(IBV_WR_RDMA_WRITE, 99, 2, false);
}

TEST_P(Windows, EndAtTheirLastByte) {
  bind(place(100, 200));
  expect_access(IBV_WR_RDMA_WRITE, 299, 1, true);
  expect_access(IBV_WR_RDMA_WRITE, 299, 2, false);
}

TEST_P(Windows, GiveNoMoreThanTheirAccess) {
  bind(place(0, 100, IBV_ACCESS_REMOTE_READ));
  expect_access(IBV_WR_RDMA_READ, 0, 8, true);
  expect_access(IBV_WR_RDMA_WRITE, 0, 8, false);
}

TEST_P(Windows, WindowsForWritesRefuseReads) {
  bind(place(0, 100, IBV_ACCESS_REMOTE_WRITE));
  expect_access(IBV_WR_RDMA_WRITE, 0, 8, true);
  expect_access(IBV_WR_RDMA_READ, 0, 8, false);
}

TEST_P(Windows, WindowsForAtomicsTakeAtomics) {
  HBMWIRE_NEED(nic.lacks_atomics());
  bind(place(0, 64, IBV_ACCESS_REMOTE_ATOMIC));
  *link->b.word(8) = 5;
  ibv_send_wr request = link->request(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8);
  request.wr.atomic.rkey = mw->rkey;
  request.wr.atomic.compare_add = 6;
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  link->a.expect_sent(1);
  EXPECT_EQ(*link->b.word(8), 11U);
}

TEST_P(Windows, MayAllowMoreThanTheRegion) {
  source(
      "man ibv_bind_mw: remote write requires local write access to the MR, no more; IBTA vol. "
      "1, chapter 10: a window's remote rights are its own");
  const Mr mr = nic.make_mr(nic.pd(), link->b.buffer.data(), 4096,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw_bind_info where = place(0, 100);
  where.mr = mr.get();
  bind(where);
  expect_access(IBV_WR_RDMA_WRITE, 0, 8, true);
  mw.reset();
}

TEST_P(Windows, NeedARegionThatMayBeBound) {
  source("man ibv_reg_mr: IBV_ACCESS_MW_BIND; IBTA vol. 1, chapter 10, C10-73 (as rxe names it)");
  const Mr mr = nic.make_mr(nic.pd(), link->b.buffer.data(), 4096, kAllAccess);
  ibv_mw_bind_info where = place(0, 100);
  where.mr = mr.get();
  expect_no_bind(where);
}

TEST_P(Windows, WindowsForWritesNeedLocalWrite) {
  source("man ibv_bind_mw: IBV_ACCESS_REMOTE_WRITE requires local write access to the MR");
  const Mr mr = nic.make_mr(nic.pd(), link->b.buffer.data(), 4096,
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
  ibv_mw_bind_info where = place(0, 100, IBV_ACCESS_REMOTE_WRITE);
  where.mr = mr.get();
  expect_no_bind(where);
}

TEST_P(Windows, MustLieWithinTheRegion) { expect_no_bind(place(link->b.buffer.size() - 10, 11)); }

TEST_P(Windows, MustNotBeginBeforeTheRegion) {
  ibv_mw_bind_info where = place(0, 100);
  where.addr -= 1;
  expect_no_bind(where);
}

TEST_P(Windows, StayWithTheirProtectionDomain) {
  source(
      "libibverbs verbs.h, ibv_bind_mw: EPERM; IBTA vol. 1, chapter 10: window, region and QP "
      "are of one protection domain");
  const Pd other = nic.make_pd();
  const Mr mr = nic.make_mr(other.get(), link->b.buffer.data(), 4096, kBindable);
  ibv_mw_bind_info where = place(0, 100);
  where.mr = mr.get();
  expect_no_bind(where);
}

TEST_P(Windows, KeepTheirRegion) {
  source("man ibv_dereg_mr: fails if any memory window is still bound to this MR");
  bind(place(0, 100));
  EXPECT_NE(ibv_dereg_mr(link->b.mr.get()), 0);
  expect_access(IBV_WR_RDMA_READ, 0, 8, true);
  mw.reset();
  EXPECT_EQ(ibv_dereg_mr(link->b.mr.release()), 0) << "the window is gone";
}

TEST_P(Windows, GiveNoAccessAfterTheirDeallocation) {
  source("man ibv_dealloc_mw: unbinds in case it was bound");
  bind(place(0, 100));
  const ibv_send_wr request = through_window(IBV_WR_RDMA_WRITE, 1, 0);
  mw.reset();
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  link->a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Windows, AreBoundInOrderWithOtherRequests) {
  source("man ibv_bind_mw: a send after a bind request on the same QP is always ordered");
  ASSERT_EQ(link->a.receive(9, 0, 8), 0);
  ASSERT_EQ(post_bind(place(0, 100), 500), 0);
  ASSERT_EQ(link->b.post(link->b.request(IBV_WR_SEND, 501, link->a.address()), 0, 8), 0);
  link->a.expect_received(9);
  expect_access(IBV_WR_RDMA_WRITE, 0, 8, true);
  link->b.expect_sent(500);
  link->b.expect_sent(501);
}

TEST_P(Windows, InlineAccessIsCheckedToo) {
  bind(place(0, 4, IBV_ACCESS_REMOTE_WRITE));
  ibv_send_wr request = through_window(IBV_WR_RDMA_WRITE, 1, 0);
  request.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(link->a.post(request, 0, 5), 0);
  link->a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
}

INSTANTIATE_TEST_SUITE_P(All, Windows, testing::Values(IBV_MW_TYPE_1, IBV_MW_TYPE_2),
                         [](const auto& row) {
                           return "Type" + std::to_string(static_cast<int>(row.param));
                         });

}  // namespace
}  // namespace hbmwire::conformance
