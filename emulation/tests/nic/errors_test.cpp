// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "emulation/tests/nic/endpoint.hpp"

/// Each row of the table of errors (emulation/nic/transport/rc.cpp): completions, states and events
/// of both sides.
namespace hbmwire::test {
namespace {

/// Expects that the request has failed at the responder: both QPs are in ERR and the responder got
/// `event`.
void expect_both_in_error(Pair& pair, ibv_event_type event) {
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.wait_event(), event);
}

void expect_remote_access_error(Pair& pair, ibv_wr_opcode opcode, std::uint32_t length,
                                const Address& target, std::size_t offset) {
  ASSERT_EQ(pair.a.rdma(opcode, 1, 0, length, target, offset), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_ACCESS_ERR);
  expect_both_in_error(pair, IBV_EVENT_QP_ACCESS_ERR);
}

TEST(RemoteAccessError, ForAWriteOneByteTooFar) {
  Pair pair;
  const std::vector<unsigned char> before = pair.b.buffer;
  pair.a.buffer.assign(pair.a.buffer.size(), 1);
  // 101 bytes, of which the last is beyond the buffer's 65536.
  expect_remote_access_error(pair, IBV_WR_RDMA_WRITE, 101, pair.b.address(), 65536 - 100);
  EXPECT_EQ(pair.b.buffer, before);
}

TEST(RemoteAccessError, ForAReadOneByteTooFar) {
  Pair pair;
  // 101 bytes, of which the last is beyond the buffer's 65536.
  expect_remote_access_error(pair, IBV_WR_RDMA_READ, 101, pair.b.address(), 65536 - 100);
}

TEST(RemoteAccessError, ForOneByteBefore) {
  Pair pair;
  expect_remote_access_error(pair, IBV_WR_RDMA_WRITE, 2, pair.b.address(),
                             static_cast<std::size_t>(-1));
}

TEST(RemoteAccessError, ForAnAddressThatWrapsAround) {
  Pair pair;
  Address target = pair.b.address();
  target.buffer = ~0ULL - 3;  // four bytes before the address 0
  expect_remote_access_error(pair, IBV_WR_RDMA_WRITE, 64, target, 0);
}

TEST(RemoteAccessError, ForAKeyThatNeverWas) {
  Pair pair;
  Address target = pair.b.address();
  target.rkey ^= 1;
  expect_remote_access_error(pair, IBV_WR_RDMA_WRITE, 8, target, 0);
}

TEST(RemoteAccessError, ForAKeyAfterDeregistration) {
  Pair pair;
  const Address target = pair.b.address();
  ASSERT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0);
  expect_remote_access_error(pair, IBV_WR_RDMA_WRITE, 8, target, 0);
}

TEST(RemoteAccessError, ForAMemoryRegionWithoutTheRight) {
  Pair write({}, {.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
  expect_remote_access_error(write, IBV_WR_RDMA_WRITE, 8, write.b.address(), 0);
  Pair read({}, {.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
  expect_remote_access_error(read, IBV_WR_RDMA_READ, 8, read.b.address(), 0);
}

TEST(RemoteAccessError, ForAMemoryRegionOfAnotherPd) {
  Pair pair;
  Endpoint stranger;
  expect_remote_access_error(pair, IBV_WR_RDMA_WRITE, 8, stranger.address(), 0);
}

TEST(RemoteInvalidRequest, ForAnOperationTheQpDoesNotAllow) {
  Pair pair({}, {.qp_access = IBV_ACCESS_REMOTE_READ});
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_INV_REQ_ERR);
  expect_both_in_error(pair, IBV_EVENT_QP_REQ_ERR);
}

TEST(RemoteInvalidRequest, ForAMisalignedAtomic) {
  Pair pair;
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {pair.b.address().buffer + 4, 1, 0, pair.b.mr->rkey};
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 8)}), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_INV_REQ_ERR);
  expect_both_in_error(pair, IBV_EVENT_QP_REQ_ERR);
}

TEST(LocalProtectionError, ForAWrongKeyOfTheSender) {
  Pair pair;
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_SEND;
  ibv_sge element = pair.a.element(0, 8);
  element.lkey = pair.b.mr->lkey;  // a valid key, but of another PD
  ASSERT_EQ(pair.a.post(request, {element}), 0);
  expect_completion(pair.a, 1, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

TEST(LocalProtectionError, ForAnElementPastTheEnd) {
  Pair pair;
  // Eight bytes, of which the last is beyond the buffer's 65536.
  ASSERT_EQ(pair.a.send(1, 65536 - 7, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_LOC_PROT_ERR);
}

TEST(LocalProtectionError, ForAReadIntoMemoryWithoutLocalWrite) {
  Pair pair({.mr_access = 0});
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1, IBV_WC_LOC_PROT_ERR);
}

TEST(TooSmallReceive, FailsOnBothSides) {
  Pair pair;
  ASSERT_EQ(pair.b.post_recv(2, 0, 7), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_INV_REQ_ERR);
  expect_completion(pair.b, 2, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(BadReceive, FailsOnBothSides) {
  Pair pair;
  // Eight bytes, of which four are beyond the buffer's 65536.
  ASSERT_EQ(pair.b.post_recv(2, 65536 - 4, 8), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_OP_ERR);
  expect_completion(pair.b, 2, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(ReceiverNotReady, EndsAfterItsRetries) {
  Pair pair({}, {}, {.rnr_retry = 2, .min_rnr_timer = 14});  // 2 x 1.28 ms
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

TEST(ReceiverNotReady, WaitsForEverWhenToldTo) {
  Pair pair({}, {}, {.rnr_retry = 7});
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  EXPECT_FALSE(pair.a.wait(std::chrono::milliseconds(100)).has_value());
  ASSERT_EQ(pair.b.post_recv(2, 0, 8), 0);
  expect_completion(pair.a, 1);
  expect_completion(pair.b, 2);
}

TEST(ReceiverNotReady, NeedsNoPollToGoOn) {
  Pair pair({}, {}, {.rnr_retry = 7});
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  ASSERT_EQ(pair.a.send(2, 0, 8), 0);
  usleep(30000);
  ASSERT_EQ(pair.b.post_recv(3, 0, 8), 0);
  expect_completion(pair.b, 3);  // only b polls
  ASSERT_EQ(pair.b.post_recv(4, 0, 8), 0);
  expect_completion(pair.b, 4);
}

/// A requester that waits for a known time sleeps.
TEST(ReceiverNotReady, TakesNoTimeOfTheProcessorWhileItWaits) {
  Pair pair({}, {}, {.rnr_retry = 6, .min_rnr_timer = 31});  // 6 x 491.52 ms
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = used();
  usleep(400'000);
  EXPECT_LT(used() - before, std::chrono::milliseconds(100));
  ASSERT_EQ(pair.b.post_recv(2, 0, 8), 0);
  expect_completion(pair.a, 1);
  expect_completion(pair.b, 2);
}

TEST(Unreachable, PeerNeverConnected) {
  Endpoint a;
  Endpoint b;
  a.connect(b.address());
  ASSERT_EQ(b.to_init(), 0);
  ASSERT_EQ(a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, b.address()), 0);
  expect_completion(a, 1, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.state(), IBV_QPS_ERR);
}

TEST(Unreachable, PeerThatComesInTimeIsReached) {
  const Timing patient{.timeout = 18, .retry_count = 7};
  Endpoint a;
  Endpoint b;
  a.connect(b.address(), patient);
  ASSERT_EQ(a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, b.address()), 0);
  EXPECT_FALSE(a.wait(std::chrono::milliseconds(20)).has_value());
  b.connect(a.address(), patient);
  expect_completion(a, 1);
}

void expect_unreachable(Endpoint& a, Endpoint& b) {
  ASSERT_EQ(a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, b.address()), 0);
  expect_completion(a, 1, IBV_WC_RETRY_EXC_ERR);
}

TEST(Unreachable, PeerIsConnectedToAnother) {
  Endpoint a;
  Endpoint b;
  Endpoint c;
  a.connect(b.address());
  b.connect(c.address());
  expect_unreachable(a, b);
}

TEST(Unreachable, SequenceNumbersDiffer) {
  Endpoint a;
  Endpoint b;
  Address wrong = a.address();
  wrong.psn ^= 1;
  a.connect(b.address());
  b.connect(wrong);
  expect_unreachable(a, b);
}

TEST(Unreachable, PathMtusDiffer) {
  Endpoint a;
  Endpoint b;
  a.connect(b.address());
  ASSERT_EQ(b.to_init(), 0);
  ASSERT_EQ(b.to_rtr(a.address(), {}, IBV_MTU_4096), 0);
  expect_unreachable(a, b);
}

TEST(Unreachable, GidIsOfAnotherNic) {
  Endpoint a;
  Endpoint b;
  Endpoint other({.device = "emu1"});
  Address wrong = b.address();
  wrong.gid = other.address().gid;
  a.connect(wrong);
  b.connect(a.address());
  expect_unreachable(a, b);
}

TEST(Unreachable, QpNumberOfADestroyedQp) {
  Endpoint a;
  Endpoint b;
  const Address gone = b.address();
  b.qp.reset();
  a.connect(gone);
  ASSERT_EQ(a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, gone), 0);
  expect_completion(a, 1, IBV_WC_RETRY_EXC_ERR);
}

TEST(Unreachable, PeerInErrorState) {
  Pair pair;
  ASSERT_EQ(pair.b.to(IBV_QPS_ERR), 0);
  expect_unreachable(pair.a, pair.b);
}

TEST(Flush, EverythingAfterAnErrorInOrder) {
  Pair pair({}, {}, {.rnr_retry = 7});
  ASSERT_EQ(pair.a.post_recv(10, 0, 8), 0);
  ASSERT_EQ(pair.a.post_recv(11, 0, 8), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);  // waits for a receive
  ASSERT_EQ(pair.a.send(2, 0, 8, /*unsignaled*/ 0), 0);
  ASSERT_EQ(pair.a.to(IBV_QPS_ERR), 0);
  std::vector<std::uint64_t> sends;
  std::vector<std::uint64_t> receives;
  for (int i = 0; i < 4; ++i) {
    const auto completion = pair.a.wait();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, IBV_WC_WR_FLUSH_ERR);
    (completion->wr_id < 10 ? sends : receives).push_back(completion->wr_id);
  }
  EXPECT_EQ(sends, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(receives, (std::vector<std::uint64_t>{10, 11}));
}

TEST(Flush, RequestsPostedInError) {
  Pair pair;
  ASSERT_EQ(pair.a.to(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8, /*unsignaled*/ 0), 0);
  expect_completion(pair.a, 1, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(pair.a.post_recv(2, 0, 8), 0);
  expect_completion(pair.a, 2, IBV_WC_WR_FLUSH_ERR);
}

TEST(Flush, ResponderAfterItsError) {
  Pair pair;
  ASSERT_EQ(pair.b.post_recv(2, 0, 8), 0);
  Address target = pair.b.address();
  target.rkey ^= 1;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, target), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_ACCESS_ERR);
  expect_completion(pair.b, 2, IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(pair.b.wait_event().has_value());
}

}  // namespace
}  // namespace hbmwire::test
