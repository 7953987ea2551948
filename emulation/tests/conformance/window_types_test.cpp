// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <vector>

#include "emulation/tests/conformance/windows.hpp"

/// Properties of only one window type: type 1 (ibv_bind_mw) or type 2 (a work request).
namespace hbmwire::conformance {
namespace {

/// Cases for type 1.
class WindowsType1 : public Windows {};

TEST_P(WindowsType1, MoveWithANewBind) {
  source("man ibv_alloc_mw: the key changes with each bind; IBTA vol. 1: type 1 windows rebind");
  bind(place(0, 100));
  const std::uint32_t old_key = mw->rkey;
  bind(place(1000, 100));
  EXPECT_NE(mw->rkey, old_key);
  expect_access(IBV_WR_RDMA_WRITE, 1000, 8, true);
  ibv_send_wr stale = link->request(IBV_WR_RDMA_WRITE, 2, 0);
  stale.wr.rdma.rkey = old_key;
  ASSERT_EQ(link->a.post(stale, 0, 8), 0);
  link->a.expect_sent(2, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsType1, AreInvalidatedByAnEmptyBind) {
  source("man ibv_alloc_mw: invalidated by ibv_bind_mw with zero length for type 1");
  bind(place(0, 100));
  const std::uint32_t old_key = mw->rkey;
  bind({nullptr, 0, 0, 0});
  EXPECT_EQ(ibv_dereg_mr(link->b.mr.release()), 0) << "nothing is bound to it";
  ibv_send_wr stale = link->request(IBV_WR_RDMA_WRITE, 2, 0);
  stale.wr.rdma.rkey = old_key;
  ASSERT_EQ(link->a.post(stale, 0, 8), 0);
  link->a.expect_sent(2, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsType1, ServeEveryQpOfTheirProtectionDomain) {
  source("IBTA vol. 1, chapter 10: a type 1 window is associated with the protection domain");
  bind(place(0, 100));
  Link other(nic, Transport::rc);
  ibv_send_wr request = other.request(IBV_WR_RDMA_WRITE, 1);
  request.wr.rdma.remote_addr = link->to_b.buffer;
  request.wr.rdma.rkey = mw->rkey;
  ASSERT_EQ(other.a.post(request, 0, 8), 0);
  other.a.expect_sent(1);
}

INSTANTIATE_TEST_SUITE_P(All, WindowsType1, testing::Values(IBV_MW_TYPE_1),
                         [](const auto& /*row*/) { return std::string("Rebind"); });

/// Cases for type 2.
class WindowsType2 : public Windows {
 protected:
  ibv_send_wr invalidation(ibv_wr_opcode opcode, std::uint64_t id, std::uint32_t rkey) {
    ibv_send_wr request{};
    request.wr_id = id;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.invalidate_rkey = rkey;
    return request;
  }
};

TEST_P(WindowsType2, AreInvalidatedLocally) {
  source("man ibv_alloc_mw: IBV_WR_LOCAL_INV for type 2; man ibv_post_send");
  bind(place(0, 100));
  ASSERT_EQ(link->b.post(invalidation(IBV_WR_LOCAL_INV, 7, mw->rkey), std::vector<ibv_sge>{}), 0);
  EXPECT_EQ(link->b.expect_sent(7).opcode, IBV_WC_LOCAL_INV);
  expect_access(IBV_WR_RDMA_WRITE, 0, 8, false);
}

TEST_P(WindowsType2, AreInvalidatedByThePeer) {
  source(
      "man ibv_poll_cq: IBV_WC_WITH_INV, invalidated_rkey; IBTA vol. 1, chapter 9, SEND with "
      "Invalidate");
  bind(place(0, 100));
  ASSERT_EQ(link->receive(2, 8000, 16), 0);
  ibv_send_wr request = invalidation(IBV_WR_SEND_WITH_INV, 1, mw->rkey);
  ASSERT_EQ(link->a.post(request, 0, 16), 0);
  EXPECT_EQ(link->a.expect_sent(1).opcode, IBV_WC_SEND);
  const ibv_wc received = link->b.expect_received(2);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_INV, 0U);
  EXPECT_EQ(received.wc_flags & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(received.invalidated_rkey, mw->rkey);
  EXPECT_EQ(received.byte_len, 16U);
  expect_access(IBV_WR_RDMA_WRITE, 0, 8, false);
}

TEST_P(WindowsType2, CanBeBoundAgainAfterInvalidation) {
  bind(place(0, 100));
  ASSERT_EQ(link->b.post(invalidation(IBV_WR_LOCAL_INV, 7, mw->rkey), std::vector<ibv_sge>{}), 0);
  link->b.expect_sent(7);
  bind(place(2000, 50));
  expect_access(IBV_WR_RDMA_WRITE, 2000, 50, true);
}

TEST_P(WindowsType2, CannotBeBoundAgainWhileTheyAreBound) {
  source(
      "IBTA vol. 1, chapter 10: a type 2 window is bound in the free state only; rxe_mw.c: "
      "o10-37.2.30");
  bind(place(0, 100));
  expect_no_bind(place(200, 100));
}

TEST_P(WindowsType2, RefuseABindOfNoLength) {
  source("IBTA vol. 1, chapter 10: a type 2 bind has a length; rxe_mw.c: o10-37.2.40");
  expect_no_bind(place(0, 0));
}

TEST_P(WindowsType2, TakeTheKeyThatTheyAreGiven) {
  source("man ibv_inc_rkey; man ibv_post_send: bind_mw.rkey is the desired new rkey");
  const std::uint32_t fresh = mw->rkey;
  bind(place(0, 100));
  EXPECT_EQ(mw->rkey, ibv_inc_rkey(fresh));
  expect_access(IBV_WR_RDMA_WRITE, 0, 8, true);
  ibv_send_wr stale = link->request(IBV_WR_RDMA_WRITE, 2, 0);
  stale.wr.rdma.rkey = fresh;
  ASSERT_EQ(link->a.post(stale, 0, 8), 0);
  link->a.expect_sent(2, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsType2, ServeTheirQpAlone) {
  source(
      "IBTA vol. 1, chapter 10: a type 2 window is associated with the QP that bound it (2A by "
      "its number, 2B by number and protection domain)");
  bind(place(0, 100));
  Link other(nic, Transport::rc);
  ibv_send_wr request = other.request(IBV_WR_RDMA_WRITE, 1);
  request.wr.rdma.remote_addr = link->to_b.buffer;
  request.wr.rdma.rkey = mw->rkey;
  ASSERT_EQ(other.a.post(request, 0, 8), 0);
  other.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsType2, InvalidationOfAStrangeKeyFails) {
  source(
      "IBTA vol. 1, chapter 9 and 10: invalidate of an R_Key that is no window's of this QP; "
      "rxe: EINVAL, local QP operation error");
  ASSERT_EQ(link->b.post(invalidation(IBV_WR_LOCAL_INV, 7, 0xffffff00), std::vector<ibv_sge>{}), 0);
  const auto completion = wait_completion(link->b.send_cq.get());
  ASSERT_TRUE(completion.has_value());
  EXPECT_NE(completion->status, IBV_WC_SUCCESS);
  EXPECT_EQ(link->b.state(), IBV_QPS_ERR);
}

TEST_P(WindowsType2, InvalidationByThePeerOfAStrangeKeyFails) {
  source(
      "IBTA vol. 1, chapter 9, SEND with Invalidate: an R_Key violation; Linux rxe_resp.c: class "
      "J");
  ASSERT_EQ(link->receive(2, 0, 16), 0);
  ASSERT_EQ(link->a.post(invalidation(IBV_WR_SEND_WITH_INV, 1, 0xffffff00), 0, 16), 0);
  const auto received = wait_completion(link->b.recv_cq.get());
  ASSERT_TRUE(received.has_value());
  EXPECT_NE(received->status, IBV_WC_SUCCESS);
  EXPECT_TRUE(wait_until([&] { return link->b.state() == IBV_QPS_ERR; }));
}

TEST_P(WindowsType2, MayBeginAtZero) {
  source("man ibv_bind_mw: IBV_ACCESS_ZERO_BASED, remote_addr is an offset from the MW's start");
  const int error = post_bind(place(300, 100, kRemoteAccess | IBV_ACCESS_ZERO_BASED), 500);
  if (error == EOPNOTSUPP || error == EINVAL)
    GTEST_SKIP() << "the device has no windows that begin at zero";
  ASSERT_EQ(error, 0);
  link->b.expect_sent(500);
  link->a.fill(0, 8, 4);
  // The window has 100 bytes from byte 300 of the buffer on, so the 8 bytes at 92 are its last.
  ibv_send_wr request = through_window(IBV_WR_RDMA_WRITE, 1, 0);
  request.wr.rdma.remote_addr = 92;
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  link->a.expect_sent(1);
  link->b.expect_filled(392, 8, 4);
  request.wr.rdma.remote_addr = 93;
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  link->a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsType2, AreRefusedByIbvBindMw) {
  source("libibverbs verbs.h, ibv_bind_mw: EINVAL for a window that is not of type 1");
  ibv_mw_bind arguments{};
  arguments.bind_info = place(0, 100);
  EXPECT_EQ(ibv_bind_mw(link->b.qp.get(), mw.get(), &arguments), EINVAL);
}

INSTANTIATE_TEST_SUITE_P(All, WindowsType2, testing::Values(IBV_MW_TYPE_2),
                         [](const auto& /*row*/) { return std::string("WorkRequest"); });

}  // namespace
}  // namespace hbmwire::conformance
