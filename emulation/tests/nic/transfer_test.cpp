// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "emulation/tests/nic/endpoint.hpp"

/// Requests that succeed, and requests that a call refuses.
namespace hbmwire::test {
namespace {

/// Fills a part of the buffer with a pattern that begins with `first`.
void fill(Endpoint& endpoint, std::size_t offset, std::size_t length, unsigned char first) {
  for (std::size_t i = 0; i < length; ++i)
    endpoint.buffer[offset + i] = static_cast<unsigned char>(first + i * 7);
}

/// Whether `length` bytes of both buffers are equal.
bool same(const Endpoint& a, std::size_t a_offset, const Endpoint& b, std::size_t b_offset,
          std::size_t length) {
  return std::equal(a.buffer.begin() + static_cast<std::ptrdiff_t>(a_offset),
                    a.buffer.begin() + static_cast<std::ptrdiff_t>(a_offset + length),
                    b.buffer.begin() + static_cast<std::ptrdiff_t>(b_offset));
}

TEST(Send, ArrivesInPostedReceive) {
  Pair pair;
  fill(pair.a, 0, 3000, 1);
  ASSERT_EQ(pair.b.post_recv(7, 100, 4000), 0);
  ASSERT_EQ(pair.a.send(8, 0, 3000), 0);
  EXPECT_EQ(expect_completion(pair.a, 8).opcode, IBV_WC_SEND);
  const ibv_wc received = expect_completion(pair.b, 7);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 3000U);
  EXPECT_EQ(received.src_qp, pair.a.qp->qp_num);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 100, 3000));
}

TEST(Send, GathersAndScatters) {
  Pair pair;
  fill(pair.a, 0, 1000, 3);
  std::vector<ibv_sge> targets{pair.b.element(0, 10), pair.b.element(2000, 0),
                               pair.b.element(1000, 700)};
  ibv_recv_wr receive{1, nullptr, targets.data(), 3};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(pair.b.qp.get(), &receive, &bad), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 100), pair.a.element(100, 400)}), 0);
  expect_completion(pair.a, 0);
  EXPECT_EQ(expect_completion(pair.b, 1).byte_len, 500U);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 0, 10));
  EXPECT_TRUE(same(pair.a, 10, pair.b, 1000, 490));
}

TEST(Send, CarriesImmediateInNetworkOrder) {
  Pair pair;
  ASSERT_EQ(pair.b.post_recv(1, 0, 16), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = 0x04030201;
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 4)}), 0);
  expect_completion(pair.a, 0);
  const ibv_wc received = expect_completion(pair.b, 1);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(received.imm_data, 0x04030201U);
}

TEST(Send, AnEmptySendConsumesAReceive) {
  Pair pair;
  ASSERT_EQ(pair.b.post_recv(1, 0, 0), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(pair.a.post(request, {}), 0);
  expect_completion(pair.a, 0);
  EXPECT_EQ(expect_completion(pair.b, 1).byte_len, 0U);
}

TEST(Send, InlineNeedsNoRegisteredMemory) {
  Pair pair;
  std::vector<unsigned char> plain(64, 0x5a);
  ASSERT_EQ(pair.b.post_recv(1, 0, 64), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ASSERT_EQ(pair.a.post(request, {{reinterpret_cast<std::uint64_t>(plain.data()), 64, 0}}), 0);
  expect_completion(pair.a, 0);
  expect_completion(pair.b, 1);
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), pair.b.buffer.begin()));
}

TEST(Send, InlineIsTakenWhenPosted) {
  Pair pair({}, {}, {.rnr_retry = 7});
  std::vector<unsigned char> plain(64, 0x5a);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ASSERT_EQ(pair.a.post(request, {{reinterpret_cast<std::uint64_t>(plain.data()), 64, 0}}), 0);
  std::fill(plain.begin(), plain.end(), 0);
  ASSERT_EQ(pair.b.post_recv(1, 0, 64), 0);
  expect_completion(pair.a, 0);
  expect_completion(pair.b, 1);
  EXPECT_EQ(std::count(pair.b.buffer.begin(), pair.b.buffer.begin() + 64, 0x5a), 64);
}

TEST(Send, TooLongInlineIsRefused) {
  Pair pair;
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(pair.a.post(request, {pair.a.element(0, 65)}), EINVAL);  // max_inline is 64
}

TEST(Send, TooManyElementsAreRefused) {
  Pair pair;
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  // The QP takes four elements.
  EXPECT_EQ(pair.a.post(request, std::vector<ibv_sge>(5, pair.a.element(0, 1))), EINVAL);
}

TEST(Send, NamesTheBadRequestAndKeepsThoseBefore) {
  Pair pair;
  ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
  ibv_sge sge = pair.a.element(0, 8);
  ibv_send_wr wrong{};
  wrong.opcode = IBV_WR_TSO;
  ibv_send_wr good{};
  good.opcode = IBV_WR_SEND;
  good.sg_list = &sge;
  good.num_sge = 1;
  good.send_flags = IBV_SEND_SIGNALED;
  good.next = &wrong;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(pair.a.qp.get(), &good, &bad), EINVAL);
  EXPECT_EQ(bad, &wrong);
  expect_completion(pair.b, 1);
}

TEST(SendQueue, UnsignaledRequestsHoldTheirSlots) {
  Pair pair({.depth = 4});
  const Address peer = pair.b.address();
  ibv_send_wr quiet{};
  quiet.opcode = IBV_WR_RDMA_WRITE;
  quiet.wr.rdma.remote_addr = peer.buffer;
  quiet.wr.rdma.rkey = peer.rkey;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.a.post(quiet, {pair.a.element(0, 8)}), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 9, 0, 8, peer), 0);
  EXPECT_EQ(pair.a.post(quiet, {pair.a.element(0, 8)}), ENOMEM);
  expect_completion(pair.a, 9);
  EXPECT_EQ(pair.a.post(quiet, {pair.a.element(0, 8)}), 0);
}

TEST(ReceiveQueue, TakesNoMoreThanItsDepth) {
  Pair pair({.depth = 4});
  for (unsigned i = 0; i < 4; ++i) ASSERT_EQ(pair.a.post_recv(i, 0, 8), 0);
  EXPECT_EQ(pair.a.post_recv(4, 0, 8), ENOMEM);
}

TEST(Write, ArrivesWithoutACompletionAtTheTarget) {
  Pair pair;
  fill(pair.a, 0, 60000, 9);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 5, 0, 60000, pair.b.address(), 123), 0);
  EXPECT_EQ(expect_completion(pair.a, 5).opcode, IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 123, 60000));
  EXPECT_FALSE(pair.b.wait(std::chrono::milliseconds(1)).has_value());
}

TEST(Write, AWriteWithImmediateConsumesAReceive) {
  Pair pair;
  fill(pair.a, 0, 5000, 2);
  ASSERT_EQ(pair.b.post_recv(1, 0, 0), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = 99;
  request.wr.rdma.remote_addr = pair.b.address().buffer + 64;
  request.wr.rdma.rkey = pair.b.mr->rkey;
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 5000)}), 0);
  expect_completion(pair.a, 0);
  const ibv_wc received = expect_completion(pair.b, 1);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.byte_len, 5000U);
  EXPECT_EQ(received.imm_data, 99U);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 64, 5000));
}

TEST(Write, AnEmptyWriteNeedsNoKey) {
  Pair pair;
  Address nowhere = pair.b.address();
  nowhere.rkey = 0;
  nowhere.buffer = 0;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 5, 0, 0, nowhere), 0);
  expect_completion(pair.a, 5);
}

TEST(Read, Fetches) {
  Pair pair;
  fill(pair.b, 0, 40000, 4);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 5, 1000, 30000, pair.b.address(), 77), 0);
  EXPECT_EQ(expect_completion(pair.a, 5).opcode, IBV_WC_RDMA_READ);
  EXPECT_TRUE(same(pair.b, 77, pair.a, 1000, 30000));
}

TEST(Atomic, FetchesAndAddsAndSwaps) {
  Pair pair;
  const auto word = [](Endpoint& at, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, at.buffer.data() + offset, 8);
    return value;
  };
  const std::uint64_t start = 40;
  std::memcpy(pair.b.buffer.data() + 8, &start, 8);
  ibv_send_wr request{};
  request.send_flags = IBV_SEND_SIGNALED;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {pair.b.address().buffer + 8, 2, 0, pair.b.mr->rkey};
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 8)}), 0);
  EXPECT_EQ(expect_completion(pair.a, 0).opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(word(pair.a, 0), 40U);
  EXPECT_EQ(word(pair.b, 8), 42U);
  request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  request.wr.atomic = {pair.b.address().buffer + 8, 42, 7, pair.b.mr->rkey};
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 8)}), 0);
  EXPECT_EQ(expect_completion(pair.a, 0).opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(pair.a, 0), 42U);
  EXPECT_EQ(word(pair.b, 8), 7U);
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 8)}), 0);  // does not compare equal now
  expect_completion(pair.a, 0);
  EXPECT_EQ(word(pair.a, 0), 7U);
  EXPECT_EQ(word(pair.b, 8), 7U);
}

TEST(Loopback, AQpMayBeItsOwnPeer) {
  Endpoint self;
  self.connect(self.address());
  fill(self, 0, 100, 8);
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 100, self.address(), 1000), 0);
  expect_completion(self, 1);
  EXPECT_TRUE(same(self, 0, self, 1000, 100));
}

TEST(Devices, DevicesOfOneMachineReachEachOther) {
  Pair pair({.device = "emu0"}, {.device = "emu1"});
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 100, pair.b.address()), 0);
  expect_completion(pair.a, 1);
}

TEST(ExtendedInterface, PostsAndPolls) {
  Endpoint peer;
  Context context = open_device();
  Pd pd(ibv_alloc_pd(context.get()));
  ibv_cq_init_attr_ex cq_attributes{};
  cq_attributes.cqe = 16;
  cq_attributes.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq_ex = ibv_create_cq_ex(context.get(), &cq_attributes);
  ASSERT_NE(cq_ex, nullptr);
  Cq cq(ibv_cq_ex_to_cq(cq_ex));
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = cq.get();
  attributes.recv_cq = cq.get();
  attributes.cap = {4, 4, 2, 2, 64};
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = pd.get();
  attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
  Endpoint side;  // for its buffer and its functions for connecting
  side.qp.reset();
  side.mr.reset();
  side.pd.swap(pd);
  side.qp.reset(ibv_create_qp_ex(context.get(), &attributes));
  ASSERT_NE(side.qp, nullptr);
  side.mr.reset(ibv_reg_mr(side.pd.get(), side.buffer.data(), side.buffer.size(), kAllAccess));
  side.psn = 5;
  side.connect(peer.address());
  peer.connect(side.address());
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(side.qp.get());
  ASSERT_NE(qp, nullptr);
  char text[] = "inline";
  ibv_wr_start(qp);
  qp->wr_id = 3;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, peer.mr->rkey, peer.address().buffer);
  ibv_wr_set_inline_data(qp, text, sizeof text);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(cq_ex, &poll), 0);
  EXPECT_EQ(cq_ex->wr_id, 3U);
  EXPECT_EQ(cq_ex->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_byte_len(cq_ex), sizeof text);
  EXPECT_EQ(ibv_next_poll(cq_ex), ENOENT);
  ibv_end_poll(cq_ex);
  EXPECT_STREQ(reinterpret_cast<const char*>(peer.buffer.data()), text);
  side.qp.reset();
  side.mr.reset();
  side.pd.reset();
}

}  // namespace
}  // namespace hbmwire::test
