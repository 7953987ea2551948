// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"

/// The properties of a device, and the creation and destruction of objects.
namespace hbmwire::test {
namespace {

TEST(Device, SaysThatItIsEmulated) {
  const Context context = open_device();
  ASSERT_NE(context, nullptr);
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(context.get(), &attributes), 0);
  EXPECT_NE(std::string(attributes.fw_ver).find("emulated"), std::string::npos)
      << attributes.fw_ver;
  EXPECT_EQ(attributes.phys_port_cnt, 1);
  EXPECT_EQ(attributes.node_guid, ibv_get_device_guid(context->device));
  EXPECT_NE(attributes.vendor_id, 0U);
}

TEST(Device, PortIsAnActiveRocePort) {
  const Context context = open_device();
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(port.gid_tbl_len, 32);
  EXPECT_EQ(ibv_query_port(context.get(), 2, &port), EINVAL);
}

TEST(Device, HasAnIpv4MappedRoceV2Gid) {
  const Context context = open_device();
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(context.get(), 1, kGidIndex, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
  EXPECT_EQ(entry.gid.raw[10], 0xff);
  EXPECT_EQ(entry.gid.raw[12], 127);
}

TEST(Objects, ProtectionDomainsAreAsManyAsTheDeviceSays) {
  const Context context = open_device();
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(context.get(), &limits), 0);
  std::vector<Pd> pds;
  for (int count = 0; count < limits.max_pd; ++count) {
    pds.emplace_back(ibv_alloc_pd(context.get()));
    ASSERT_NE(pds.back(), nullptr) << count;
  }
  EXPECT_EQ(ibv_alloc_pd(context.get()), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(Objects, AreDestroyedInsideOut) {
  Endpoint a;
  EXPECT_EQ(ibv_dealloc_pd(a.pd.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(a.cq.get()), EBUSY);
  a.qp.reset();
  EXPECT_EQ(ibv_dealloc_pd(a.pd.get()), EBUSY) << "the MR is left";
  a.mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(a.pd.release()), 0);
  EXPECT_EQ(ibv_destroy_cq(a.cq.release()), 0);
}

TEST(Objects, QueuesBeyondTheDevicesLimitsAreRefused) {
  Endpoint a;
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(a.context.get(), &limits), 0);
  EXPECT_EQ(ibv_create_cq(a.context.get(), limits.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(a.context.get(), 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_create_cq(a.context.get(), 1, nullptr, nullptr, a.context->num_comp_vectors),
            nullptr);
  const Cq largest(ibv_create_cq(a.context.get(), limits.max_cqe, nullptr, nullptr, 0));
  EXPECT_NE(largest, nullptr);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = a.cq.get();
  init.cap.max_send_wr = static_cast<std::uint32_t>(limits.max_qp_wr) + 1;
  EXPECT_EQ(ibv_create_qp(a.pd.get(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.cap.max_send_wr = static_cast<std::uint32_t>(limits.max_qp_wr);
  init.cap.max_recv_wr = static_cast<std::uint32_t>(limits.max_qp_wr);
  init.cap.max_send_sge = init.cap.max_recv_sge = static_cast<std::uint32_t>(limits.max_sge);
  const Qp qp(ibv_create_qp(a.pd.get(), &init));
  EXPECT_NE(qp, nullptr);
}

TEST(Objects, NumbersAreNotUsedAgainAtOnce) {
  Endpoint a;
  const std::uint32_t qpn = a.qp->qp_num;
  EXPECT_GT(qpn, 1U);
  EXPECT_LT(qpn, 0xffffffU);
  const std::uint32_t rkey = a.mr->rkey;
  a.qp.reset();
  a.mr.reset();
  Endpoint b;
  EXPECT_NE(b.qp->qp_num, qpn);
  EXPECT_NE(b.mr->rkey, rkey);
}

TEST(Objects, LivingOnesAreCounted) {
  const unsigned qps = live_objects("qp");
  const unsigned mrs = live_objects("mr");
  {
    Endpoint a({.with_channel = true});
    EXPECT_EQ(live_objects("qp"), qps + 1);
    EXPECT_EQ(live_objects("mr"), mrs + 1);
    EXPECT_EQ(live_objects("channel"), 1U);
    EXPECT_EQ(live_objects("context"), 1U);
  }
  EXPECT_EQ(live_objects("qp"), qps);
  EXPECT_EQ(live_objects("channel"), 0U);
  EXPECT_EQ(live_objects("context"), 0U);
}

TEST(Objects, AReusedDescriptorIsLeftAlone) {
  // libibverbs closes a channel's descriptor itself, and another thread may get the same number at
  // once. Nothing orders that thread's open() before the next look at the number.
  const Context context = open_device();
  Channel channel(ibv_create_comp_channel(context.get()));
  ASSERT_NE(channel, nullptr);
  const int number = channel->fd;
  channel.reset();
  std::atomic<int> opened{-2};
  std::atomic<bool> over{false};
  std::thread other([&] {
    const Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    opened.store(file.get(), std::memory_order_relaxed);
    while (!over.load(std::memory_order_relaxed)) std::this_thread::yield();
  });
  while (opened.load(std::memory_order_relaxed) < -1) std::this_thread::yield();
  EXPECT_EQ(opened.load(std::memory_order_relaxed), number);
  EXPECT_EQ(live_objects("channel"), 0U);
  EXPECT_NE(::fcntl(number, F_GETFD), -1);
  over.store(true, std::memory_order_relaxed);
  other.join();
}

TEST(FailingCalls, LeaveNothingBehind) {
  const auto set_up = [] {
    try {
      Pair pair({.with_channel = true});
      return !::testing::Test::HasFailure();
    } catch (const std::exception&) {
      return false;
    }
  };
  ASSERT_TRUE(set_up());  // makes the objects that a process keeps
  const int descriptors = open_descriptors();
  long n = 0;
  for (bool complete = false; !complete; ++n) {
    ASSERT_LT(n, 100);
    // If modify_qp fails, an ASSERT in connect() fails; that is expected here.
    fail_nth_call(n, EIO);
    Context context = open_device();
    int error = context ? 0 : errno;
    if (context) {
      Channel channel(ibv_create_comp_channel(context.get()));
      if (!channel) error = errno;
      Pd pd(ibv_alloc_pd(context.get()));
      if (!pd) error = errno;
      Cq cq(ibv_create_cq(context.get(), 4, nullptr, channel.get(), 0));
      if (!cq) error = errno;
      std::vector<char> memory(100);
      Mr mr(pd ? ibv_reg_mr(pd.get(), memory.data(), memory.size(), kAllAccess) : nullptr);
      if (pd && !mr) error = errno;
      ibv_qp_init_attr init{};
      init.qp_type = IBV_QPT_RC;
      init.send_cq = init.recv_cq = cq.get();
      init.cap = {1, 1, 1, 1, 0};
      Qp qp(pd && cq ? ibv_create_qp(pd.get(), &init) : nullptr);
      if (pd && cq && !qp) error = errno;
      if (qp) {
        ibv_qp_attr values{};
        values.qp_state = IBV_QPS_RESET;
        if (const int failed = ibv_modify_qp(qp.get(), &values, IBV_QP_STATE); failed != 0)
          error = failed;
      }
      const long counted = fail_nth_call(-1, 0);  // destroying the objects below must not fail
      complete = counted <= n;
    } else {
      fail_nth_call(-1, 0);
    }
    EXPECT_EQ(error, complete ? 0 : EIO) << "call " << n;
    context.reset();
    for (const char* kind : {"context", "channel", "pd", "cq", "mr", "qp"}) {
      EXPECT_EQ(live_objects(kind), 0U) << kind << " after call " << n;
    }
    EXPECT_EQ(open_descriptors(), descriptors) << "after call " << n;
  }
  EXPECT_GE(n, 7);  // at least the seven kinds of calls above
}

}  // namespace
}  // namespace hbmwire::test
