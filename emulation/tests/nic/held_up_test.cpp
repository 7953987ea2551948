// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"
#include "emulation/tests/nic/under_plan.hpp"
#include "emulation/tests/nic/work_request.hpp"

/// Fault plans that delay messages, drop them, or let them arrive late.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A timeout of 4.096 us * 2^14 = 67.1 ms.
constexpr auto kTimeout = 67ms;

constexpr std::size_t kGrhBytes = 40;  // in front of a received datagram

/// A requester that waits kTimeout for an answer and tries again `count` times.
Timing retries(std::uint8_t count) {
  Timing timing;
  timing.timeout = 14;
  timing.retry_count = count;
  return timing;
}

TEST(HeldUp, ADroppedRequestIsSentAgain) {
  if (!under_plan("drop,op=write,nth=1")) return;
  Pair pair({}, {}, retries(1));
  pair.a.buffer[0] = 'x';
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 8, 8, pair.b.address(), 8), 0);
  expect_completion(pair.a, 1);
  EXPECT_GE(Clock::now() - begin, kTimeout);
  EXPECT_EQ(pair.b.buffer[0], 'x');
  expect_completion(pair.a, 2);
}

TEST(HeldUp, ADroppedRequestWithoutARetryIsAnError) {
  if (!under_plan("drop,op=write,nth=1")) return;
  Pair pair({}, {}, retries(0));
  pair.a.buffer[0] = 'x';
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 8, 8, pair.b.address(), 8), 0);
  expect_completion(pair.a, 1, IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(Clock::now() - begin, kTimeout);
  expect_completion(pair.a, 2, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.b.buffer[0], 0);
}

TEST(HeldUp, ADroppedRequestWithoutATimeoutWaitsForever) {
  if (!under_plan("drop,op=write,nth=1")) return;
  Timing timing = retries(7);
  timing.timeout = 0;
  Pair pair({}, {}, timing);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  EXPECT_FALSE(pair.a.wait(100ms).has_value());
  ASSERT_EQ(pair.a.to(IBV_QPS_ERR), 0);
  expect_completion(pair.a, 1, IBV_WC_WR_FLUSH_ERR);
}

TEST(HeldUp, ADroppedUnreliableMessageIsGone) {
  if (!under_plan("drop,op=send,nth=1")) return;
  Pair pair(kUc, kUc);
  ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
  pair.a.buffer[0] = 'x';
  ASSERT_EQ(pair.a.send(2, 0, 8), 0);
  expect_completion(pair.a, 2);
  pair.a.buffer[0] = 'y';
  ASSERT_EQ(pair.a.send(3, 0, 8), 0);
  expect_completion(pair.a, 3);
  expect_completion(pair.b, 1);
  EXPECT_EQ(pair.b.buffer[0], 'y');
}

TEST(HeldUp, ADelayedRequestArrivesAndCompletesLater) {
  if (!under_plan("delay,op=send,nth=1,ms=50")) return;
  Pair pair({}, {}, retries(0));
  ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
  ASSERT_EQ(pair.b.post_recv(2, 8, 8), 0);
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.send(3, 0, 8), 0);
  ASSERT_EQ(pair.a.send(4, 0, 8), 0);
  expect_completion(pair.b, 1);
  EXPECT_GE(Clock::now() - begin, 50ms);
  expect_completion(pair.b, 2);
  expect_completion(pair.a, 3);
  expect_completion(pair.a, 4);
}

TEST(HeldUp, ADelayedUnreliableMessageCompletesLaterToo) {
  if (!under_plan("delay,op=send,nth=1,ms=50")) return;
  Pair pair(kUc, kUc);
  ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.send(2, 0, 8), 0);
  expect_completion(pair.a, 2);
  EXPECT_GE(Clock::now() - begin, 50ms);
  expect_completion(pair.b, 1);
}

/// The request arrives before its requester's retries are used up.
TEST(HeldUp, ALateRequestMayBeInTime) {
  if (!under_plan("late,op=write,nth=1,ms=100")) return;
  Pair pair({}, {}, retries(3));
  pair.a.buffer[0] = 'x';
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  EXPECT_GE(Clock::now() - begin, 100ms);
  EXPECT_EQ(pair.b.buffer[0], 'x');
}

void wait_for_byte(const unsigned char& byte, unsigned char value) {
  const auto end = Clock::now() + 20s;
  while (polled(&byte) != value && Clock::now() < end) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(polled(&byte), value);
}

/// The late request is executed although its requester has given it up and is gone.
TEST(HeldUp, ALateRequestActsWhenItsRequesterHasGivenItUp) {
  if (!under_plan("late,op=write,nth=1,ms=400")) return;
  Pair pair({}, {}, retries(0));
  pair.a.buffer[0] = 'x';
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 8, 8, pair.b.address(), 8), 0);
  expect_completion(pair.a, 1, IBV_WC_RETRY_EXC_ERR);
  expect_completion(pair.a, 2, IBV_WC_WR_FLUSH_ERR);
  pair.a.buffer[0] = 'y';
  pair.a.qp.reset();
  wait_for_byte(pair.b.buffer[0], 'x');
}

TEST(HeldUp, ALateRequestIsRefusedByAQueuePairThatWasReset) {
  if (!under_plan("late,op=write,nth=1,ms=150")) return;
  Pair pair({}, {}, retries(0));
  pair.a.buffer[0] = 'x';
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1, IBV_WC_RETRY_EXC_ERR);
  for (Endpoint* side : {&pair.a, &pair.b}) {
    ASSERT_EQ(side->to(IBV_QPS_RESET), 0);
    side->psn += 77;  // the new connection has other sequence numbers
  }
  pair.a.connect(pair.b.address());
  pair.b.connect(pair.a.address());
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(polled(pair.b.buffer.data()), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 2);
}

TEST(HeldUp, ALateUnreliableMessageArrivesBehindLaterOnes) {
  if (!under_plan("late,op=send,nth=1,ms=100")) return;
  Pair pair(kUc, kUc);
  ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
  ASSERT_EQ(pair.b.post_recv(2, 8, 8), 0);
  for (const char message : {'x', 'y'}) {
    pair.a.buffer[0] = static_cast<unsigned char>(message);
    ASSERT_EQ(pair.a.send(3, 0, 8), 0);
    expect_completion(pair.a, 3);
  }
  expect_completion(pair.b, 1);
  EXPECT_EQ(pair.b.buffer[0], 'y');
  expect_completion(pair.b, 2);
  EXPECT_EQ(pair.b.buffer[8], 'x');
}

/// Sends a message from one UD endpoint to another.
int send_datagram(Endpoint& from, const Endpoint& to, std::uint64_t id) {
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.dgid = to.address().gid;
  path.grh.sgid_index = kGidIndex;
  path.grh.hop_limit = 64;
  const Ah ah(ibv_create_ah(from.pd.get(), &path));
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud.ah = ah.get();
  request.wr.ud.remote_qpn = to.address().qpn;
  request.wr.ud.remote_qkey = kQkey;
  return from.post(request, {from.element(0, 8)});
}

TEST(HeldUp, DatagramsAreDroppedAndLate) {
  if (!under_plan("drop,op=send,nth=1;late,op=send,nth=2,ms=100")) return;
  const Endpoint::Options options{.type = IBV_QPT_UD};
  Endpoint a(options);
  Endpoint b(options);
  a.connect({});
  b.connect({});
  ASSERT_EQ(b.post_recv(1, 0, 64), 0);
  ASSERT_EQ(b.post_recv(2, 64, 64), 0);
  for (const char message : {'x', 'y', 'z'}) {
    a.buffer[0] = static_cast<unsigned char>(message);
    ASSERT_EQ(send_datagram(a, b, 3), 0);
    expect_completion(a, 3);
  }
  expect_completion(b, 1);
  EXPECT_EQ(b.buffer[kGrhBytes], 'z');
  expect_completion(b, 2);
  EXPECT_EQ(b.buffer[64 + kGrhBytes], 'y');
}

}  // namespace
}  // namespace hbmwire::test
