// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"

/// The size of a shared receive queue and its limit event, compared with man ibv_create_srq and
/// ibv_modify_srq.
namespace hbmwire::test {
namespace {

Srq make_srq(const Endpoint& owner, ibv_srq_attr wanted) {
  ibv_srq_init_attr init{};
  init.attr = wanted;
  return Srq(ibv_create_srq(owner.pd.get(), &init));
}

ibv_srq_attr srq_attributes(const Srq& srq) {
  ibv_srq_attr attributes{};
  EXPECT_EQ(ibv_query_srq(srq.get(), &attributes), 0);
  return attributes;
}

/// Sets the limit. Returns ibv_modify_srq's result.
int arm(const Srq& srq, std::uint32_t limit) {
  ibv_srq_attr attributes{};
  attributes.srq_limit = limit;
  return ibv_modify_srq(srq.get(), &attributes, IBV_SRQ_LIMIT);
}

/// Sets the depth. Returns ibv_modify_srq's result.
int resize(const Srq& srq, std::uint32_t depth) {
  ibv_srq_attr attributes{};
  attributes.max_wr = depth;
  return ibv_modify_srq(srq.get(), &attributes, IBV_SRQ_MAX_WR);
}

TEST(Srq, HasTheLimitsThatTheDeviceReports) {
  Endpoint a;
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(a.context.get(), &limits), 0);
  EXPECT_NE(limits.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0U);
  ASSERT_GT(limits.max_srq, 0);
  const auto wr = static_cast<std::uint32_t>(limits.max_srq_wr);
  const auto sge = static_cast<std::uint32_t>(limits.max_srq_sge);
  // {max_wr, max_sge, srq_limit}, of which one is wrong.
  for (const ibv_srq_attr& wrong :
       {ibv_srq_attr{wr + 1, 1, 0}, ibv_srq_attr{1, sge + 1, 0}, ibv_srq_attr{0, 1, 0}}) {
    EXPECT_EQ(make_srq(a, wrong), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  const Srq largest = make_srq(a, {wr, sge, 0});
  ASSERT_NE(largest, nullptr);
  EXPECT_EQ(srq_attributes(largest).max_wr, wr);
  EXPECT_EQ(srq_attributes(largest).max_sge, sge);
}

TEST(Srq, IsNotArmedByItsCreation) {
  Endpoint a;
  const Srq srq = make_srq(a, {4, 1, 3});  // man ibv_create_srq: srq_limit is irrelevant
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(srq_attributes(srq).srq_limit, 0U);
  EXPECT_FALSE(a.wait_event(std::chrono::milliseconds(20)).has_value());
}

TEST(SrqLimit, EventComesOnceWhenFewerAreLeft) {
  Pair pair({}, kWithSrq);
  for (unsigned id = 0; id < 5; ++id) ASSERT_EQ(pair.b.post_srq_recv(id, 0, 8), 0);
  ASSERT_EQ(arm(pair.b.srq, 4), 0);
  EXPECT_EQ(srq_attributes(pair.b.srq).srq_limit, 4U);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);  // 4 are left, which is not less than 4
  EXPECT_FALSE(pair.b.wait_event(std::chrono::milliseconds(20)).has_value());
  ASSERT_EQ(pair.a.send(2, 0, 8), 0);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(srq_attributes(pair.b.srq).srq_limit, 0U);
  ASSERT_EQ(pair.a.send(3, 0, 8), 0);
  EXPECT_FALSE(pair.b.wait_event(std::chrono::milliseconds(20)).has_value());
}

TEST(SrqLimit, EventComesAtOnceWhenFewerAreThereAlready) {
  Endpoint a(kWithSrq);
  ASSERT_EQ(a.post_srq_recv(1, 0, 8), 0);
  ASSERT_EQ(arm(a.srq, 1), 0);
  EXPECT_FALSE(a.wait_event(std::chrono::milliseconds(20)).has_value());
  ASSERT_EQ(arm(a.srq, 2), 0);
  EXPECT_EQ(a.wait_event(), IBV_EVENT_SRQ_LIMIT_REACHED);
}

TEST(SrqLimit, ALimitBeyondTheDepthIsRefused) {
  Endpoint a(kWithSrq);
  EXPECT_EQ(arm(a.srq, 9), EINVAL);
  for (unsigned id = 0; id < 8; ++id) ASSERT_EQ(a.post_srq_recv(id, 0, 8), 0);
  EXPECT_EQ(arm(a.srq, 8), 0);
  ibv_srq_attr attributes{};
  EXPECT_EQ(ibv_modify_srq(a.srq.get(), &attributes, 1 << 5), EINVAL) << "no such attribute";
}

TEST(SrqLimit, DestroyingWaitsForTheEventsAcknowledgement) {
  Endpoint a;
  Srq srq = make_srq(a, {4, 1, 0});
  ASSERT_EQ(arm(srq, 1), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(a.context.get(), &event), 0);
  EXPECT_EQ(event.element.srq, srq.get());
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_srq(srq.release()), 0);
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(destroyed);
  ibv_ack_async_event(&event);
  destroyer.join();
}

TEST(SrqLimit, UnreadEventGoesWithTheSrq) {
  Endpoint a;
  Srq srq = make_srq(a, {4, 1, 0});
  ASSERT_EQ(arm(srq, 1), 0);
  EXPECT_EQ(ibv_destroy_srq(srq.release()), 0);
  EXPECT_FALSE(a.wait_event(std::chrono::milliseconds(20)).has_value());
}

TEST(SrqLimit, EventThatDidNotFitComesLater) {
  Endpoint a;
  const Srq full = make_srq(a, {4, 1, 0});
  const Srq late = make_srq(a, {4, 1, 0});
  // More events at once than a pipe holds: 4096.
  for (int i = 0; i < 6000; ++i) ASSERT_EQ(arm(full, 1), 0);
  ASSERT_EQ(arm(late, 1), 0);
  bool came = false;
  ibv_async_event event{};
  for (pollfd ready{a.context->async_fd, POLLIN, 0}; ::poll(&ready, 1, 20) == 1;) {
    ASSERT_EQ(ibv_get_async_event(a.context.get(), &event), 0);
    came = came || event.element.srq == late.get();
    ibv_ack_async_event(&event);
  }
  EXPECT_TRUE(came);
}

TEST(SrqResize, KeepsPostedReceives) {
  Pair pair({}, kWithSrq);
  for (unsigned id = 0; id < 3; ++id) ASSERT_EQ(pair.b.post_srq_recv(id, 0, 8), 0);
  for (unsigned id = 0; id < 3; ++id) ASSERT_EQ(pair.a.send(id, 0, 8, 0), 0);
  for (unsigned id = 0; id < 3; ++id) expect_completion(pair.b, id);
  for (unsigned id = 10; id < 18; ++id) ASSERT_EQ(pair.b.post_srq_recv(id, 0, 8), 0);
  EXPECT_EQ(resize(pair.b.srq, 7), EINVAL) << "8 are posted";
  EXPECT_EQ(srq_attributes(pair.b.srq).max_wr, 8U);
  ASSERT_EQ(resize(pair.b.srq, 11), 0);
  EXPECT_EQ(srq_attributes(pair.b.srq).max_wr, 11U);
  for (unsigned id = 18; id < 21; ++id) ASSERT_EQ(pair.b.post_srq_recv(id, 0, 8), 0);
  EXPECT_EQ(pair.b.post_srq_recv(21, 0, 8), ENOMEM);
  for (unsigned id = 10; id < 21; ++id) {
    ASSERT_EQ(pair.a.send(id, 0, 8), 0);
    expect_completion(pair.a, id);
    expect_completion(pair.b, id);
  }
  EXPECT_EQ(resize(pair.b.srq, 1), 0);
  EXPECT_EQ(resize(pair.b.srq, 0), EINVAL);
}

TEST(SrqResize, ChangesNothingWhenTheLimitIsWrong) {
  Endpoint a(kWithSrq);
  ibv_srq_attr attributes{};
  attributes.max_wr = 4;
  attributes.srq_limit = 5;
  EXPECT_EQ(ibv_modify_srq(a.srq.get(), &attributes, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(srq_attributes(a.srq).max_wr, 8U);
  for (unsigned id = 0; id < 6; ++id) ASSERT_EQ(a.post_srq_recv(id, 0, 8), 0);
  ASSERT_EQ(arm(a.srq, 6), 0);
  EXPECT_EQ(resize(a.srq, 5), EINVAL);
}

}  // namespace
}  // namespace hbmwire::test
