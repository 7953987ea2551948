// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/endpoint.hpp"

/// Shared receive queues with other processes, and with unreliable transports.
namespace hbmwire::test {
namespace {

const Timing kPatientPeer{.rnr_retry = 7};

/// Connects, and sends 8 bytes when told to. Tells its peer when they are posted and when they have
/// arrived.
void send_once(const Line& line) {
  Endpoint self;
  self.connect(line.exchange(self.address()), kPatientPeer);
  line.receive<bool>();
  ASSERT_EQ(self.send(1, 0, 8), 0);
  line.send(true);
  expect_completion(self, 1);
  line.send(true);
}

TEST(SrqPeers, OnePostWakesOneOfTheProcessesThatWait) {
  Endpoint self(kWithSrq);
  Child first(send_once);
  Child second(send_once);
  self.connect(first.line().exchange(self.address()), kPatientPeer);
  const Qp first_qp = self.next_qp();
  self.connect(second.line().exchange(self.address()), kPatientPeer);
  first.line().send(true);
  second.line().send(true);
  first.line().receive<bool>();
  second.line().receive<bool>();
  EXPECT_FALSE(self.wait(std::chrono::milliseconds(30)).has_value());
  std::set<std::uint32_t> from;
  for (unsigned id = 0; id < 2; ++id) {
    ASSERT_EQ(self.post_srq_recv(id, 0, 8), 0);
    const auto received = self.wait();
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->wr_id, id);
    from.insert(received->qp_num);
    EXPECT_FALSE(self.wait(std::chrono::milliseconds(20)).has_value());
  }
  EXPECT_EQ(from, (std::set<std::uint32_t>{first_qp->qp_num, self.qp->qp_num}));
  first.line().receive<bool>();
  second.line().receive<bool>();
  EXPECT_EQ(first.join(), 0);
  EXPECT_EQ(second.join(), 0);
}

/// A waiting sender looks every 20 ms whether its peer is alive. If the post did not wake it, the
/// usual delay would be half of that.
TEST(SrqPeers, PostWakesTheSenderAtOnce) {
  constexpr unsigned kRounds = 31;
  Child child([](const Line& line) {
    Endpoint self(kWithSrq);
    self.connect(line.exchange(self.address()), kPatientPeer);
    line.send(true);
    std::vector<std::chrono::nanoseconds> delays;
    for (unsigned round = 0; round < kRounds; ++round) {
      line.receive<bool>();
      usleep(1000 + 700 * round);
      const auto start = std::chrono::steady_clock::now();
      ASSERT_EQ(self.post_srq_recv(round, 0, 8), 0);
      expect_completion(self, round);
      delays.push_back(std::chrono::steady_clock::now() - start);
      line.send(true);
    }
    std::sort(delays.begin(), delays.end());
    EXPECT_LT(delays[kRounds / 2], std::chrono::milliseconds(5));
  });
  Endpoint self;
  self.connect(child.line().exchange(self.address()), kPatientPeer);
  child.line().receive<bool>();
  for (unsigned round = 0; round < kRounds; ++round) {
    ASSERT_EQ(self.send(round, 0, 8), 0);
    child.line().send(true);
    child.line().receive<bool>();
    expect_completion(self, round);
  }
  EXPECT_EQ(child.join(), 0);
}

TEST(SrqPeers, LimitEventReachesTheOwnerInAnotherProcess) {
  Child child([](const Line& line) {
    Endpoint self(kWithSrq);
    for (unsigned id = 0; id < 2; ++id) ASSERT_EQ(self.post_srq_recv(id, 0, 8), 0);
    ibv_srq_attr limit{};
    limit.srq_limit = 2;
    ASSERT_EQ(ibv_modify_srq(self.srq.get(), &limit, IBV_SRQ_LIMIT), 0);
    self.connect(line.exchange(self.address()), kPatientPeer);
    line.send(true);
    EXPECT_EQ(self.wait_event(), IBV_EVENT_SRQ_LIMIT_REACHED);
    line.send(true);
  });
  Endpoint self;
  self.connect(child.line().exchange(self.address()), kPatientPeer);
  child.line().receive<bool>();
  ASSERT_EQ(self.send(1, 0, 8), 0);
  expect_completion(self, 1);
  child.line().receive<bool>();
  EXPECT_EQ(child.join(), 0);
}

TEST(SrqPeers, DeathOfTheOwnerEndsRequestsThatWait) {
  Child child([](const Line& line) {
    Endpoint self(kWithSrq);
    self.connect(line.exchange(self.address()), kPatientPeer);
    line.send(true);
    line.receive<bool>();
  });
  Endpoint self;
  self.connect(child.line().exchange(self.address()), kPatientPeer);
  child.line().receive<bool>();
  ASSERT_EQ(self.send(1, 0, 8), 0);
  usleep(10000);
  child.kill();
  child.join();
  expect_completion(self, 1, IBV_WC_RETRY_EXC_ERR);
}

TEST(SrqPeers, AForkedChildCannotUseItsParentsSrq) {
  Endpoint self(kWithSrq);
  Child child([&](const Line& line) {
    EXPECT_EQ(self.post_srq_recv(1, 0, 8), EIO);
    ibv_srq_attr attributes{};
    EXPECT_EQ(ibv_query_srq(self.srq.get(), &attributes), EIO);
    EXPECT_EQ(ibv_modify_srq(self.srq.get(), &attributes, IBV_SRQ_LIMIT), EIO);
    EXPECT_EQ(ibv_destroy_srq(self.srq.get()), EIO);
    ibv_srq_init_attr init{};
    init.attr = {1, 1, 0};
    EXPECT_EQ(ibv_create_srq(self.pd.get(), &init), nullptr);
    EXPECT_EQ(errno, EIO);
    line.send(true);
  });
  child.line().receive<bool>();
  EXPECT_EQ(child.join(), 0);
  EXPECT_EQ(self.post_srq_recv(1, 0, 8), 0);
}

TEST(SrqUnreliable, UcDropsMessagesWhenItIsEmpty) {
  Pair pair({.type = IBV_QPT_UC}, {.type = IBV_QPT_UC, .srq_depth = 8});
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1);
  ASSERT_EQ(pair.b.post_srq_recv(2, 0, 8), 0);
  EXPECT_FALSE(pair.b.wait(std::chrono::milliseconds(20)).has_value());
  ASSERT_EQ(pair.a.send(3, 0, 8), 0);
  expect_completion(pair.b, 2);
}

TEST(SrqUnreliable, UdDropsMessagesWhenItIsEmpty) {
  Endpoint a({.type = IBV_QPT_UD});
  Endpoint b({.type = IBV_QPT_UD, .srq_depth = 8});
  for (Endpoint* end : {&a, &b}) end->connect({});
  ibv_ah_attr to{};
  to.is_global = 1;
  to.port_num = 1;
  to.grh.sgid_index = kGidIndex;
  to.grh.hop_limit = 64;
  to.grh.dgid = b.address().gid;
  const Ah ah(ibv_create_ah(a.pd.get(), &to));
  ASSERT_NE(ah, nullptr);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud = {ah.get(), b.qp->qp_num, kQkey};
  ASSERT_EQ(a.post(request, {a.element(0, 8)}), 0);
  expect_completion(a, 0);
  ASSERT_EQ(b.post_srq_recv(2, 0, 64), 0);
  EXPECT_FALSE(b.wait(std::chrono::milliseconds(20)).has_value());
  a.buffer[0] = 'd';
  ASSERT_EQ(a.post(request, {a.element(0, 8)}), 0);
  expect_completion(a, 0);
  EXPECT_EQ(expect_completion(b, 2).byte_len, 48U);
  EXPECT_EQ(b.buffer[40], 'd');
}

}  // namespace
}  // namespace hbmwire::test
