// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "tests/conformance/link.hpp"

/// Memory windows, type 1 (ibv_bind_mw) and type 2 (a work request): bound, used, invalidated.
namespace hbmwire::conformance {
namespace {

constexpr const char* kWindowSource =
    "man ibv_alloc_mw, ibv_bind_mw; IBTA vol. 1, chapter 10, Memory Windows, type 1 and type 2; "
    "chapter 9, R_Key check of a window";

constexpr int kBindable = kAllAccess | IBV_ACCESS_MW_BIND;

/// The end that owns the memory binds, its peer reads and writes through the window.
class Windows : public ConformanceOf<ibv_mw_type> {
 protected:
  void SetUp() override {
    ConformanceOf::SetUp();
    source(kWindowSource);
    HBMWIRE_NEED(nic.lacks_windows(GetParam()));
    link = std::make_unique<Link>(nic, Transport::rc, LinkOptions{.b = {.mr_access = kBindable}});
    mw.reset(need(ibv_alloc_mw(nic.pd(), GetParam()), "ibv_alloc_mw"));
  }

  ibv_mw_bind_info place(std::size_t offset, std::size_t length, unsigned access = kRemoteAccess) {
    return {link->b.mr.get(), link->to_b.buffer + offset, length, access};
  }

  /// Posts a bind; 0 or errno. Type 2 gets the next key.
  int post_bind(const ibv_mw_bind_info& where, std::uint64_t id) {
    if (GetParam() == IBV_MW_TYPE_1) {
      ibv_mw_bind bind{};
      bind.wr_id = id;
      bind.send_flags = IBV_SEND_SIGNALED;
      bind.bind_info = where;
      return ibv_bind_mw(link->b.qp.get(), mw.get(), &bind);
    }
    ibv_send_wr request{};
    request.wr_id = id;
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_mw.mw = mw.get();
    request.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    request.bind_mw.bind_info = where;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(link->b.qp.get(), &request, &bad);
    if (error == 0) mw->rkey = request.bind_mw.rkey;
    return error;
  }

  void bind(const ibv_mw_bind_info& where) {
    ASSERT_EQ(post_bind(where, 500), 0);
    EXPECT_EQ(link->b.expect_sent(500).opcode, IBV_WC_BIND_MW);
  }

  /// Refused when it is posted, or when it is executed.
  void expect_no_bind(const ibv_mw_bind_info& where) {
    const int error = post_bind(where, 500);
    if (error != 0) {
      EXPECT_TRUE(error == EINVAL || error == EPERM || error == EOPNOTSUPP) << errno_name(error);
      return;
    }
    const auto completion = wait_completion(link->b.send_cq.get());
    ASSERT_TRUE(completion.has_value()) << "no completion of the bind";
    EXPECT_TRUE(completion->status == IBV_WC_MW_BIND_ERR ||
                completion->status == IBV_WC_LOC_PROT_ERR ||
                completion->status == IBV_WC_LOC_QP_OP_ERR)
        << ibv_wc_status_str(completion->status);
    EXPECT_EQ(link->b.state(), IBV_QPS_ERR);
  }

  ibv_send_wr through_window(ibv_wr_opcode opcode, std::uint64_t id, std::size_t offset) {
    ibv_send_wr request = link->request(opcode, id, offset);
    request.wr.rdma.rkey = mw->rkey;
    return request;
  }

  void expect_access(ibv_wr_opcode opcode, std::size_t offset, std::uint32_t length, bool allowed) {
    ASSERT_EQ(link->a.post(through_window(opcode, 1, offset), 0, length), 0);
    link->a.expect_sent(1, allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
  }

  std::unique_ptr<Link> link;
  Mw mw;
};

TEST_P(Windows, HandlesSayWhatTheyAre) {
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

TEST_P(Windows, EndAtTheirFirstByte) {
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

TEST_P(Windows, OfWritesRefuseReads) {
  bind(place(0, 100, IBV_ACCESS_REMOTE_WRITE));
  expect_access(IBV_WR_RDMA_WRITE, 0, 8, true);
  expect_access(IBV_WR_RDMA_READ, 0, 8, false);
}

TEST_P(Windows, OfAtomicsTakeAtomics) {
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

TEST_P(Windows, MayGiveWhatTheRegionDoesNot) {
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

TEST_P(Windows, OfWritesNeedLocalWrite) {
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

TEST_P(Windows, ThatAreGoneGiveNoAccess) {
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

/// What is of type 1 alone.
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

TEST_P(WindowsType1, AreInvalidatedByABindOfNothing) {
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

/// What is of type 2 alone.
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

TEST_P(WindowsType2, CanBeBoundAgainOnceInvalid) {
  bind(place(0, 100));
  ASSERT_EQ(link->b.post(invalidation(IBV_WR_LOCAL_INV, 7, mw->rkey), std::vector<ibv_sge>{}), 0);
  link->b.expect_sent(7);
  bind(place(2000, 50));
  expect_access(IBV_WR_RDMA_WRITE, 2000, 50, true);
}

TEST_P(WindowsType2, AreNotBoundWhileTheyAreBound) {
  source(
      "IBTA vol. 1, chapter 10: a type 2 window is bound in the free state only; rxe_mw.c: "
      "o10-37.2.30");
  bind(place(0, 100));
  expect_no_bind(place(200, 100));
}

TEST_P(WindowsType2, AreNotBoundToNothing) {
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
  ibv_send_wr request = through_window(IBV_WR_RDMA_WRITE, 1, 0);
  request.wr.rdma.remote_addr = 92;
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  link->a.expect_sent(1);
  link->b.expect_filled(392, 8, 4);
  request.wr.rdma.remote_addr = 93;
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  link->a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsType2, AreNotForIbvBindMw) {
  source("libibverbs verbs.h, ibv_bind_mw: EINVAL for a window that is not of type 1");
  ibv_mw_bind arguments{};
  arguments.bind_info = place(0, 100);
  EXPECT_EQ(ibv_bind_mw(link->b.qp.get(), mw.get(), &arguments), EINVAL);
}

INSTANTIATE_TEST_SUITE_P(All, WindowsType2, testing::Values(IBV_MW_TYPE_2),
                         [](const auto& /*row*/) { return std::string("WorkRequest"); });

}  // namespace
}  // namespace hbmwire::conformance
