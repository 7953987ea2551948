// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "emulation/tests/nic/endpoint.hpp"
#include "emulation/tests/nic/under_plan.hpp"

/// Effects of a fault plan on payloads, calls and creations.
namespace hbmwire::test {
namespace {

/// The number of bits in which the first bytes of both buffers differ.
std::ptrdiff_t differing_bits(const Endpoint& a, const Endpoint& b, std::size_t length) {
  std::ptrdiff_t bits = 0;
  for (std::size_t i = 0; i < length; ++i) bits += __builtin_popcount(a.buffer[i] ^ b.buffer[i]);
  return bits;
}

/// Expects that only bit 0 of byte 100 of the second message of 1000 bytes arrives flipped.
void expect_second_flipped(Pair& pair, Endpoint& source, Endpoint& target, ibv_wr_opcode opcode) {
  source.buffer.assign(source.buffer.size(), 0x10);
  for (int round = 1; round <= 3; ++round) {
    target.buffer.assign(target.buffer.size(), 0);
    if (opcode == IBV_WR_SEND) {
      ASSERT_EQ(pair.b.post_recv(2, 0, 1000), 0);
      ASSERT_EQ(pair.a.send(1, 0, 1000), 0);
      expect_completion(pair.b, 2);
    } else {
      ASSERT_EQ(pair.a.rdma(opcode, 1, 0, 1000, pair.b.address()), 0);
    }
    expect_completion(pair.a, 1);
    EXPECT_EQ(differing_bits(source, target, 1000), round == 2 ? 1 : 0) << "message " << round;
    EXPECT_EQ(target.buffer[100], round == 2 ? 0x11 : 0x10);
    EXPECT_EQ(std::count(source.buffer.begin(), source.buffer.end(), 0x10), 65536)
        << "the source stays";
  }
}

/// A byte's number counts modulo the length of the message: 2100 is byte 100 of 1000.
TEST(FaultPlan, FlipsABitOfTheNthSend) {
  if (!under_plan("flip,op=send,nth=2,byte=2100")) return;
  Pair pair;
  expect_second_flipped(pair, pair.a, pair.b, IBV_WR_SEND);
}

TEST(FaultPlan, FlipsABitOfTheNthWrite) {
  if (!under_plan("flip,op=write,nth=2,byte=100")) return;
  Pair pair;
  expect_second_flipped(pair, pair.a, pair.b, IBV_WR_RDMA_WRITE);
}

TEST(FaultPlan, FlipsABitOfTheNthRead) {
  if (!under_plan("flip,op=read,nth=2,byte=100")) return;
  Pair pair;
  expect_second_flipped(pair, pair.b, pair.a, IBV_WR_RDMA_READ);
}

TEST(FaultPlan, FailsTheNthCallOnce) {
  if (!under_plan("fail,call=ibv_reg_mr,nth=2,errno=12")) return;
  Endpoint first;  // makes the first call of ibv_reg_mr
  EXPECT_EQ((ibv_reg_mr)(first.pd.get(), first.buffer.data(), 8, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_NE(Mr((ibv_reg_mr)(first.pd.get(), first.buffer.data(), 8, 0)), nullptr);
}

// The first request waits for its receive and is tried several times, but counts once.
TEST(FaultPlan, CountsARequestThatWaitsOnce) {
  if (!under_plan("flip,op=send,nth=2")) return;
  Pair pair({}, {}, {.timeout = 14, .retry_count = 7, .rnr_retry = 7});
  pair.b.buffer.assign(64, 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  for (int polls = 0; polls < 100; ++polls) EXPECT_FALSE(pair.a.wait(std::chrono::milliseconds(0)));
  ASSERT_EQ(pair.b.post_recv(2, 0, 8), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[0], pair.a.buffer[0]);
  ASSERT_EQ(pair.b.post_recv(2, 8, 8), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[8], pair.a.buffer[0] ^ 1U);
}

TEST(FaultPlan, FailsSomeOfTheCalls) {
  if (!under_plan("fail,call=ibv_alloc_pd,nth=2,every=3,count=2,errno=12")) return;
  const Context context = open_device();
  std::string calls;
  for (int i = 0; i < 10; ++i) calls += Pd(ibv_alloc_pd(context.get())) ? '.' : 'x';
  // The second call fails, then the third one after it; two failures in total.
  EXPECT_EQ(calls, ".x..x.....");
}

/// Makes objects until that fails, and expects `limit` objects then. After one is destroyed,
/// another can be made.
template <typename Object>
void expect_limit(std::size_t limit, const std::function<Object()>& make) {
  std::vector<Object> objects;
  for (std::size_t i = 0; i < limit; ++i) {
    objects.push_back(make());
    ASSERT_NE(objects.back(), nullptr) << i;
  }
  EXPECT_EQ(make(), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  objects.pop_back();
  EXPECT_NE(make(), nullptr);
}

TEST(FaultPlan, LimitsTheNumberOfLivingObjects) {
  if (!under_plan("limit,object=pd,count=2;limit,object=mr,count=3;limit,object=mw,count=1;"
                  "limit,object=cq,count=4;limit,object=srq,count=2;limit,object=qp,count=2;"
                  "limit,object=ah,count=1;limit,object=ah,count=5;limit,node=another,object=cq,"
                  "count=0"))
    return;
  const Context context = open_device();
  expect_limit<Pd>(2, [&] { return Pd(ibv_alloc_pd(context.get())); });
  const Pd pd(ibv_alloc_pd(context.get()));
  std::vector<unsigned char> buffer(64);
  expect_limit<Mr>(3, [&] { return Mr((ibv_reg_mr)(pd.get(), buffer.data(), 64, 0)); });
  expect_limit<Mw>(1, [&] { return Mw(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2)); });
  expect_limit<Cq>(4, [&] { return Cq(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0)); });
  const Cq cq(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0));
  ibv_srq_init_attr srq{};
  srq.attr = {4, 1, 0};
  expect_limit<Srq>(2, [&] { return Srq(ibv_create_srq(pd.get(), &srq)); });
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq.get();
  expect_limit<Qp>(2, [&] { return Qp(ibv_create_qp(pd.get(), &init)); });
  ibv_ah_attr address{};
  address.is_global = 1;
  address.port_num = 1;
  address.grh.sgid_index = kGidIndex;
  expect_limit<Ah>(1, [&] { return Ah(ibv_create_ah(pd.get(), &address)); });
}

}  // namespace
}  // namespace hbmwire::test
