// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>

#include "emulation/tests/conformance/link.hpp"

/// Calls that return an error number also leave that number in errno, where the failed system call
/// has put it. Libraries that `return -errno` would otherwise take the failure for success.
namespace hbmwire::conformance {
namespace {

constexpr const char* kErrnoSource =
    "man ioctl, man write: errno; rdma-core libibverbs/cmd_ioctl.c, execute_ioctl: returns the "
    "errno of the ioctl";

class ErrorNumbers : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    source(kErrnoSource);
  }

  /// Expects `call` to fail, with the error in the result and in errno.
  template <typename Call>
  void expect_both(const char* name, Call call) {
    errno = 0;
    const int returned = call();
    const int left = errno;
    EXPECT_NE(returned, 0) << name;
    EXPECT_EQ(left, returned) << name << " returned " << errno_name(returned) << " and left "
                              << errno_name(left);
  }
};

TEST_F(ErrorNumbers, ObjectsInUse) {
  Pd pd = nic.make_pd();
  Side side(nic, {.bytes = 64, .with_srq = nic.lacks_srq().empty(), .pd = pd.get()});
  expect_both("ibv_dealloc_pd", [&] { return ibv_dealloc_pd(pd.get()); });
  expect_both("ibv_destroy_cq", [&] { return ibv_destroy_cq(side.send_cq.get()); });
  if (side.srq) {
    expect_both("ibv_destroy_srq", [&] { return ibv_destroy_srq(side.srq.get()); });
  }
}

TEST_F(ErrorNumbers, AnXrcDomainInUse) {
  HBMWIRE_NEED(nic.lacks(IBV_QPT_XRC_RECV));
  const Side side(nic, {.type = IBV_QPT_XRC_RECV, .bytes = 64});
  expect_both("ibv_close_xrcd", [&] { return ibv_close_xrcd(side.xrcd.get()); });
}

TEST_F(ErrorNumbers, AMoveBetweenStates) {
  Side side(nic, {.bytes = 64});
  expect_both("ibv_modify_qp", [&] { return side.to(IBV_QPS_RTS); });
}

TEST_F(ErrorNumbers, AMissingPort) {
  ibv_port_attr port{};
  expect_both("ibv_query_port", [&] { return ibv_query_port(nic.context(), 200, &port); });
}

TEST_F(ErrorNumbers, SharedReceiveQueues) {
  HBMWIRE_NEED(nic.lacks_srq());
  const Side side(nic, {.bytes = 64, .with_srq = true});
  ibv_srq_attr attributes{};
  attributes.srq_limit = 1U << 20U;
  expect_both("ibv_modify_srq",
              [&] { return ibv_modify_srq(side.srq.get(), &attributes, IBV_SRQ_LIMIT); });
}

TEST_F(ErrorNumbers, CompletionQueues) {
  const Cq cq = nic.make_cq();
  const int status = ibv_resize_cq(cq.get(), nic.limits().max_cqe + 1);
  if (status == ENOSYS || status == EOPNOTSUPP) GTEST_SKIP() << "the device resizes no CQs";
  expect_both("ibv_resize_cq", [&] { return ibv_resize_cq(cq.get(), nic.limits().max_cqe + 1); });
}

TEST_F(ErrorNumbers, Multicast) {
  HBMWIRE_NEED(nic.lacks_multicast());
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[15] = 9;
  const Side connected(nic, {.bytes = 64});
  expect_both("ibv_attach_mcast",
              [&] { return ibv_attach_mcast(connected.qp.get(), &group, 0xc001); });
  Side datagrams(nic, {.type = IBV_QPT_UD, .bytes = 64});
  expect_both("ibv_detach_mcast",
              [&] { return ibv_detach_mcast(datagrams.qp.get(), &group, 0xc001); });
  ASSERT_EQ(ibv_attach_mcast(datagrams.qp.get(), &group, 0xc001), 0);
  expect_both("ibv_destroy_qp", [&] { return ibv_destroy_qp(datagrams.qp.get()); });
  ASSERT_EQ(ibv_detach_mcast(datagrams.qp.get(), &group, 0xc001), 0);
}

TEST_F(ErrorNumbers, ARefusedBind) {
  HBMWIRE_NEED(nic.lacks_windows(IBV_MW_TYPE_1));
  const Side side(nic, {.mr_access = kAllAccess | IBV_ACCESS_MW_BIND, .bytes = 64});
  const Mw mw(need(ibv_alloc_mw(nic.pd(), IBV_MW_TYPE_1), "ibv_alloc_mw"));
  ibv_mw_bind bind{};
  bind.bind_info = {side.mr.get(), reinterpret_cast<std::uint64_t>(side.buffer.data()), 64,
                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED};
  expect_both("ibv_bind_mw", [&] { return ibv_bind_mw(side.qp.get(), mw.get(), &bind); });
}

}  // namespace
}  // namespace hbmwire::conformance
