// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/endpoint.hpp"

/// `--limits emu1=qp=4,cq=3,cqe=64,mr=5,srq=0` and `--limits emu2=srq=2`. emu0 has no limits.
namespace hbmwire::test {
namespace {

ibv_device_attr limits_of(const char* device) {
  const Endpoint end({.device = device});
  ibv_device_attr limits{};
  EXPECT_EQ(ibv_query_device(end.context.get(), &limits), 0);
  return limits;
}

Qp make_qp(const Pd& pd, const Cq& cq) {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = attributes.recv_cq = cq.get();
  attributes.cap = {1, 1, 1, 1, 0};
  return Qp(ibv_create_qp(pd.get(), &attributes));
}

Qp make_qp(const Endpoint& end) { return make_qp(end.pd, end.cq); }

Srq make_srq(const Endpoint& end) {
  ibv_srq_init_attr attributes{};
  attributes.attr = {4, 1, 0};
  return Srq(ibv_create_srq(end.pd.get(), &attributes));
}

/// Makes as many objects as possible, up to a hundred.
template <class Make>
auto make_all(const Make& make) {
  constexpr std::size_t kMost = 100;
  std::vector<decltype(make())> all;
  for (auto one = make(); one != nullptr && all.size() < kMost; one = make())
    all.push_back(std::move(one));
  return all;
}

TEST(NicLimits, AreReported) {
  const ibv_device_attr limits = limits_of("emu1");
  EXPECT_EQ(limits.max_qp, 4);
  EXPECT_EQ(limits.max_cq, 3);
  EXPECT_EQ(limits.max_cqe, 64);
  EXPECT_EQ(limits.max_mr, 5);
  EXPECT_EQ(limits.max_srq, 0);
  const ibv_device_attr others = limits_of("emu0");
  EXPECT_EQ(others.max_qp, 65533);
  EXPECT_EQ(others.max_srq, 65535);
}

TEST(NicLimits, AllProcessesShareTheLimitOfQueuePairs) {
  Endpoint end({.device = "emu1"});  // with the first of the four QPs
  auto all = make_all([&] { return make_qp(end); });
  EXPECT_EQ(all.size(), 3U);
  EXPECT_EQ(errno, ENOMEM);
  Child other([](const Line&) {
    const Context context = open_device("emu1");
    const Pd pd(ibv_alloc_pd(context.get()));
    const Cq cq(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0));
    EXPECT_EQ(make_qp(pd, cq), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  });
  EXPECT_EQ(other.join(), 0);
  Endpoint elsewhere({.device = "emu0"});
  EXPECT_EQ(make_all([&] { return make_qp(elsewhere); }).size(), 100U);
  all.pop_back();
  EXPECT_NE(make_qp(end), nullptr);
}

TEST(NicLimits, DoNotCountObjectsOfDeadProcesses) {
  Child dies([](const Line& line) {
    Endpoint end({.device = "emu1"});
    const auto all = make_all([&] { return make_qp(end); });
    EXPECT_EQ(all.size(), 3U);
    line.send(1);
    ::pause();
  });
  EXPECT_EQ(dies.line().receive<int>(), 1);
  dies.kill();
  dies.join();
  Endpoint end({.device = "emu1"});
  EXPECT_EQ(make_all([&] { return make_qp(end); }).size(), 3U);
}

TEST(NicLimits, LimitCompletionQueues) {
  const Endpoint end({.device = "emu1"});  // with the first of the three CQs
  const auto make = [&] { return Cq(ibv_create_cq(end.context.get(), 64, nullptr, nullptr, 0)); };
  EXPECT_EQ(make_all(make).size(), 2U);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_create_cq(end.context.get(), 65, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_resize_cq(end.cq.get(), 65), EINVAL);
  EXPECT_EQ(ibv_resize_cq(end.cq.get(), 64), 0);
}

TEST(NicLimits, LimitMemoryRegions) {
  const Endpoint end({.device = "emu1"});  // with the first of the five MRs
  std::array<char, 64> memory{};
  const auto make = [&] {
    return Mr(ibv_reg_mr(end.pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
  };
  auto all = make_all(make);
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_rereg_mr(all.back().get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(make(), nullptr);
  all.pop_back();
  EXPECT_NE(make(), nullptr);
}

TEST(NicLimits, ALimitOfZeroMeansNoSharedReceiveQueues) {
  const Endpoint end({.device = "emu1"});
  EXPECT_EQ(make_srq(end), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  const Endpoint able({.device = "emu2"});
  EXPECT_EQ(make_all([&] { return make_srq(able); }).size(), 2U);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace hbmwire::test
