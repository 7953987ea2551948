// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>

#include "emulation/tests/nic/window_steps.hpp"

/// IBV_WR_LOCAL_INV, IBV_WR_SEND_WITH_INV, and MRs with bound windows. The wr_ids are those of
/// window_steps.hpp: 7 for a bind, 8 for an invalidation, 9 for a SEND that invalidates.
namespace hbmwire::test {
namespace {

TEST(Invalidate, ClosesTheWindow) {
  WindowPair pair;
  const Mw window = bound_type_2(pair.b, part_of(pair.b, 0, 64, kRemoteWrite));
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 0), IBV_WC_SUCCESS);
  ASSERT_EQ(invalidate(pair.b, window->rkey), 0);
  expect_completion(pair.b, 8);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST(Invalidate, TakesOnlyTheKeyOfABoundType2Window) {
  for (int which = 0; which < 4; ++which) {  // a failure ends the QP, so each key needs a new pair
    WindowPair pair;
    Endpoint& b = pair.b;
    const Mw type_1 = alloc_window(b, IBV_MW_TYPE_1);
    const Mw unbound = alloc_window(b, IBV_MW_TYPE_2);
    const Mw bound = bound_type_2(b, part_of(b, 0, 64, kRemoteRead));
    ASSERT_EQ(bind_type_1(b, type_1.get(), part_of(b, 0, 64, kRemoteRead)), 0);
    expect_completion(b, 7);
    const std::uint32_t keys[] = {b.mr->rkey, type_1->rkey, unbound->rkey, bound->rkey + 1};
    ASSERT_EQ(invalidate(b, keys[which]), 0);
    expect_completion(b, 8, IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(b.state(), IBV_QPS_ERR);
  }
}

TEST(Invalidate, AnInvalidationByThePeerComesWithItsMessage) {
  WindowPair pair;
  const Mw window = bound_type_2(pair.b, part_of(pair.b, 0, 64, kRemoteWrite));
  ASSERT_EQ(pair.b.post_recv(5, 1000, 16), 0);
  pair.a.buffer[0] = 0x61;
  ASSERT_EQ(send_with_invalidate(pair.a, window->rkey), 0);
  EXPECT_EQ(expect_completion(pair.a, 9).opcode, IBV_WC_SEND);
  const ibv_wc received = expect_completion(pair.b, 5);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wc_flags & (IBV_WC_WITH_INV | IBV_WC_WITH_IMM),
            static_cast<unsigned>(IBV_WC_WITH_INV));
  EXPECT_EQ(received.invalidated_rkey, window->rkey);
  EXPECT_EQ(received.byte_len, 4U);
  EXPECT_EQ(pair.b.buffer[1000], 0x61);
  EXPECT_EQ(ibv_dereg_mr(pair.b.mr.get()), 0) << "nothing is bound to it";
  pair.b.mr.release();
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST(Invalidate, AnInvalidationByThePeerOfAWrongKeyFailsTheReceive) {
  for (int which = 0; which < 3; ++which) {
    WindowPair pair;
    const Mw window = bound_type_2(pair.b, part_of(pair.b, 0, 64, kRemoteWrite));
    const Mw type_1 = alloc_window(pair.b, IBV_MW_TYPE_1);
    ASSERT_EQ(bind_type_1(pair.b, type_1.get(), part_of(pair.b, 0, 64, kRemoteRead)), 0);
    expect_completion(pair.b, 7);
    const std::uint32_t keys[] = {window->rkey + 1, pair.b.mr->rkey, type_1->rkey};
    ASSERT_EQ(pair.b.post_recv(5, 1000, 16), 0);
    ASSERT_EQ(send_with_invalidate(pair.a, keys[which]), 0);
    expect_completion(pair.a, 9);
    expect_completion(pair.b, 5, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  }
}

TEST(MemoryRegion, StaysWhileAWindowIsBoundToIt) {
  WindowPair pair;
  Mw window = bound_type_2(pair.b, part_of(pair.b, 0, 64, kRemoteWrite));
  EXPECT_EQ(ibv_dereg_mr(pair.b.mr.get()), EBUSY);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 0), IBV_WC_SUCCESS);
  window.reset();  // also unbinds
  EXPECT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0);
}

TEST(MemoryRegion, ADeregisteredRegionIsNotBound) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
  ASSERT_EQ(pair.b.to(IBV_QPS_SQD), 0);  // so the bind waits in the queue
  ASSERT_EQ(bind_type_2(pair.b, window.get(), 1, part_of(pair.b, 0, 64, kRemoteRead)), 0);
  ASSERT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0);
  ASSERT_EQ(pair.b.to(IBV_QPS_RTS), 0);
  expect_completion(pair.b, 7, IBV_WC_MW_BIND_ERR);
}

TEST(MemoryRegion, ADeallocatedWindowIsNotBoundToIt) {
  WindowPair pair;
  Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
  ASSERT_EQ(pair.b.to(IBV_QPS_SQD), 0);
  ASSERT_EQ(bind_type_2(pair.b, window.get(), 1, part_of(pair.b, 0, 64, kRemoteRead)), 0);
  window.reset();
  ASSERT_EQ(pair.b.to(IBV_QPS_RTS), 0);
  expect_completion(pair.b, 7, IBV_WC_MW_BIND_ERR);
}

}  // namespace
}  // namespace hbmwire::test
