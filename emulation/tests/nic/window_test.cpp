// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "emulation/tests/nic/window_steps.hpp"

/// Memory windows, and those of type 1: man ibv_alloc_mw, ibv_bind_mw; IBTA vol. 1, 10.6.7. A bind
/// has the wr_id 7 (window_steps.hpp) unless a test names another one.
namespace hbmwire::test {
namespace {

TEST(MemoryWindows, AreAnnouncedByTheDevice) {
  const Context context = open_device();
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
  EXPECT_GT(device.max_mw, 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0U);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0U);
  EXPECT_EQ(device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0U);
}

TEST(MemoryWindows, AreObjectsOfAProtectionDomain) {
  Endpoint a;
  EXPECT_EQ(alloc_window(a, static_cast<ibv_mw_type>(0)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(alloc_window(a, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  Pd pd(ibv_alloc_pd(a.context.get()));
  Mw window(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_1));
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->context, a.context.get());
  EXPECT_EQ(window->pd, pd.get());
  EXPECT_EQ(window->type, IBV_MW_TYPE_1);
  EXPECT_EQ(live_objects("mw"), 1U);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  window.reset();
  EXPECT_EQ(live_objects("mw"), 0U);
  EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

TEST(MemoryWindows, FailWhenAPlanSaysSo) {
  Endpoint a;
  fail_nth_call(0, ENOMEM);
  EXPECT_EQ(alloc_window(a, IBV_MW_TYPE_2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  Mw window = alloc_window(a, IBV_MW_TYPE_2);
  fail_nth_call(0, EIO);
  EXPECT_EQ(ibv_dealloc_mw(window.get()), EIO);
  EXPECT_EQ(live_objects("mw"), 1U);
  fail_nth_call(-1, 0);
}

TEST(WindowType1, OpensTheRangeThatItIsBoundTo) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  const std::uint32_t before = window->rkey;
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 100, 50, kRemoteWrite | kRemoteRead)),
            0);
  EXPECT_EQ(window->rkey, ibv_inc_rkey(before)) << "known as soon as it is posted";
  EXPECT_EQ(expect_completion(pair.b, 7).opcode, IBV_WC_BIND_MW);
  pair.a.buffer[0] = 0x77;
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 100), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.buffer[100], 0x77);
  // The window has the bytes 100 to 149, and reach() moves four bytes.
  pair.b.buffer[146] = 0x55;
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_READ, window->rkey, 146), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.buffer[0], 0x55);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 147), IBV_WC_REM_ACCESS_ERR)
      << "one byte past its end";
}

TEST(WindowType1, AWriteOneByteBeforeItFails) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 100, 50, kRemoteWrite)), 0);
  expect_completion(pair.b, 7);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 99), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_ACCESS_ERR);
}

TEST(WindowType1, GivesOnlyTheRightsOfItsBind) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 64, kRemoteRead)), 0);
  expect_completion(pair.b, 7);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_READ, window->rkey, 0), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST(WindowType1, TheKeyIsInvalidBeforeTheFirstBind) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_READ, window->rkey, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST(WindowType1, TheKeyIsNotALocalKey) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 64, kRemoteRead)), 0);
  expect_completion(pair.b, 7);
  ibv_sge element = pair.b.element(0, 4);
  element.lkey = window->rkey;
  ibv_send_wr request{};
  request.wr_id = 2;
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(pair.b.post(request, {element}), 0);
  expect_completion(pair.b, 2, IBV_WC_LOC_PROT_ERR);
}

TEST(WindowType1, IsBoundAnewWithoutInvalidating) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 64, kRemoteWrite)), 0);
  const std::uint32_t first = window->rkey;
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 200, 64, kRemoteWrite), 8), 0);
  expect_completion(pair.b, 7);
  expect_completion(pair.b, 8);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 200), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, first, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST(WindowType1, IsUnboundByABindOfNoLength) {
  WindowPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 64, kRemoteWrite)), 0);
  const std::uint32_t bound = window->rkey;
  ASSERT_EQ(bind_type_1(pair.b, window.get(), {}, 8), 0);
  expect_completion(pair.b, 7);
  expect_completion(pair.b, 8);
  EXPECT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0) << "no window is bound to the MR";
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, bound, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST(WindowType1, ServesEveryQueuePairOfItsDomain) {
  WindowPair pair;
  Endpoint second;  // the peer of another QP of b's domain
  second.to_init();
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = pair.b.cq.get();
  init.cap = {4, 4, 1, 1, 0};
  Qp other(ibv_create_qp(pair.b.pd.get(), &init));
  ASSERT_NE(other, nullptr);
  std::swap(pair.b.qp, other);  // connect() acts on the endpoint's QP
  Address there = pair.b.address();
  pair.b.psn = there.psn = 5;
  pair.b.connect(second.address());
  ASSERT_EQ(second.to_rtr(there), 0);
  ASSERT_EQ(second.to_rts(), 0);
  std::swap(pair.b.qp, other);
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 64, kRemoteWrite)), 0);
  expect_completion(pair.b, 7);
  there.rkey = window->rkey;
  ASSERT_EQ(second.rdma(IBV_WR_RDMA_WRITE, 1, 0, 4, there), 0);
  expect_completion(second, 1);
}

TEST(WindowType1, AWrongBindIsRefusedByTheCall) {
  WindowPair pair;
  Endpoint& b = pair.b;
  const Mw window = alloc_window(b, IBV_MW_TYPE_1);
  const Mw type_2 = alloc_window(b, IBV_MW_TYPE_2);
  const std::uint32_t rkey = window->rkey;
  const ibv_mw_bind_info good = part_of(b, 0, 64, kRemoteRead);
  EXPECT_EQ(bind_type_1(b, type_2.get(), good), EINVAL);
  ibv_mw_bind_info no_region = good;
  no_region.mr = nullptr;
  EXPECT_EQ(bind_type_1(b, window.get(), no_region), EINVAL);
  const Pd pd(ibv_alloc_pd(b.context.get()));
  const Mr elsewhere((ibv_reg_mr)(pd.get(), b.buffer.data(), 64, kBindable));
  EXPECT_EQ(bind_type_1(b, window.get(), {elsewhere.get(), good.addr, 64, kRemoteRead}), EPERM);
  EXPECT_EQ(bind_type_1(b, window.get(), part_of(b, 0, 64, kRemoteRead | IBV_ACCESS_ZERO_BASED)),
            EINVAL);
  EXPECT_EQ(bind_type_2(b, window.get(), rkey + 1, good), EINVAL) << "type 1 by ibv_post_send";
  Endpoint in_reset({.mr_access = kBindable});
  const Mw early = alloc_window(in_reset, IBV_MW_TYPE_1);
  EXPECT_EQ(bind_type_1(in_reset, early.get(), part_of(in_reset, 0, 64, kRemoteRead)), EINVAL);
  EXPECT_EQ(window->rkey, rkey) << "the key did not change";
  EXPECT_EQ(b.state(), IBV_QPS_RTS);
}

struct RefusedBind {
  const char* name;
  int mr_access;
  std::size_t offset;
  std::uint64_t length;
  unsigned access;
};

class BindIsRefused : public ::testing::TestWithParam<RefusedBind> {};

/// C10-73 to C10-75 of the InfiniBand specification: the completion reports the error.
TEST_P(BindIsRefused, ByTheCompletion) {
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    WindowPair pair(GetParam().mr_access);
    const Mw window = alloc_window(pair.b, type);
    const ibv_mw_bind_info info =
        part_of(pair.b, GetParam().offset, GetParam().length, GetParam().access);
    ASSERT_EQ(type == IBV_MW_TYPE_1
                  ? bind_type_1(pair.b, window.get(), info)
                  : bind_type_2(pair.b, window.get(), ibv_inc_rkey(window->rkey), info),
              0);
    EXPECT_EQ(expect_completion(pair.b, 7, IBV_WC_MW_BIND_ERR).qp_num, pair.b.qp->qp_num);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  }
}

constexpr std::size_t kBytes = 65536;  // the size of an endpoint's buffer
INSTANTIATE_TEST_SUITE_P(
    MemoryWindow, BindIsRefused,
    ::testing::Values(
        RefusedBind{"RegionWithoutBindAccess", IBV_ACCESS_LOCAL_WRITE, 0, 64, kRemoteRead},
        RefusedBind{"WriteToARegionThatMayNotBeWritten", IBV_ACCESS_MW_BIND, 0, 64, kRemoteWrite},
        RefusedBind{"AtomicsOnARegionThatMayNotBeWritten", IBV_ACCESS_MW_BIND, 0, 64,
                    IBV_ACCESS_REMOTE_ATOMIC},
        RefusedBind{"PastTheEnd", kBindable, kBytes - 63, 64, kRemoteRead},
        RefusedBind{"BeforeTheBeginning", kBindable, ~std::size_t{0}, 64, kRemoteRead},
        RefusedBind{"LongerThanTheRegion", kBindable, 0, kBytes + 1, kRemoteRead},
        RefusedBind{"LengthThatWraps", kBindable, 64, ~0ULL - 8, kRemoteRead},
        RefusedBind{"UnknownAccess", kBindable, 0, 64, IBV_ACCESS_ON_DEMAND}),
    [](const auto& instance) { return std::string(instance.param.name); });

/// A program may free the memory after deallocating a window.
TEST(MemoryWindows, DeallocatingWaitsForInboundWrites) {
  Pair pair({.bytes = 32 << 20}, {.mr_access = kBindable, .bytes = 32 << 20});
  Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 32 << 20, kRemoteWrite)), 0);
  expect_completion(pair.b, 7);
  Address target = pair.b.address();
  target.rkey = window->rkey;
  pair.a.buffer.assign(pair.a.buffer.size(), 1);
  std::thread writer([&] {
    for (std::uint64_t id = 0;; ++id) {
      if (pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 32 << 20, target) != 0) return;
      const auto completion = pair.a.wait();
      if (!completion || completion->status != IBV_WC_SUCCESS) return;
    }
  });
  usleep(20000);
  window.reset();
  std::fill(pair.b.buffer.begin(), pair.b.buffer.end(), 2);
  writer.join();
  for (const unsigned char byte : pair.b.buffer) ASSERT_EQ(byte, 2);
}

/// Rebinds while a peer writes. WRITEs with the old key are complete before the rebind completes,
/// and every later WRITE with the old key fails.
TEST(WindowType1, ARebindWaitsForWritesWithTheOldKey) {
  Pair pair({.bytes = 8 << 20}, {.mr_access = kBindable, .bytes = 16 << 20});
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 8 << 20, kRemoteWrite)), 0);
  expect_completion(pair.b, 7);
  Address target = pair.b.address();
  target.rkey = window->rkey;
  pair.a.buffer.assign(pair.a.buffer.size(), 1);
  std::atomic<bool> failed{false};
  std::thread writer([&] {
    for (std::uint64_t id = 0; !failed; ++id) {
      if (pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8 << 20, target) != 0) return;
      const auto completion = pair.a.wait();
      failed = !completion || completion->status != IBV_WC_SUCCESS;
    }
  });
  usleep(20000);
  ASSERT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 8 << 20, 8 << 20, kRemoteWrite)), 0);
  expect_completion(pair.b, 7);
  std::fill(pair.b.buffer.begin(), pair.b.buffer.end(), 2);
  writer.join();
  EXPECT_TRUE(failed);
  for (const unsigned char byte : pair.b.buffer) ASSERT_EQ(byte, 2);
}

}  // namespace
}  // namespace hbmwire::test
