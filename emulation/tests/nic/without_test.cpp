// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "emulation/tests/nic/endpoint.hpp"

/// `--without`: emu1 has neither dma-bufs nor atomics; emu0 has both.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kWord = 41;

int post_atomic(Endpoint& self, const Address& peer) {
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic.remote_addr = peer.buffer;
  request.wr.atomic.rkey = peer.rkey;
  request.wr.atomic.compare_add = 1;
  return self.post(request, {self.element(0, 8)});
}

void set_word(Endpoint& of) { std::memcpy(of.buffer.data(), &kWord, sizeof kWord); }

std::uint64_t word(const Endpoint& of) {
  std::uint64_t value = 0;
  std::memcpy(&value, of.buffer.data(), sizeof value);
  return value;
}

ibv_atomic_cap atomics_of(const Endpoint& end) {
  ibv_device_attr limits{};
  EXPECT_EQ(ibv_query_device(end.context.get(), &limits), 0);
  return limits.atomic_cap;
}

TEST(Without, DmabufsAreRefusedAsByADriverWithoutThem) {
  const Fd memory(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory.get(), 4096), 0);
  Endpoint able;
  const Mr mr(ibv_reg_dmabuf_mr(able.pd.get(), 0, 4096, 0, memory.get(), kAllAccess));
  EXPECT_NE(mr, nullptr);
  Endpoint unable({.device = "emu1"});
  EXPECT_EQ(ibv_reg_dmabuf_mr(unable.pd.get(), 0, 4096, 0, memory.get(), kAllAccess), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(Without, AtomicsAreNeitherOfferedNorPosted) {
  Pair pair({.device = "emu1"}, {.device = "emu0"});
  EXPECT_EQ(atomics_of(pair.a), IBV_ATOMIC_NONE);
  EXPECT_EQ(atomics_of(pair.b), IBV_ATOMIC_HCA);
  set_word(pair.b);
  EXPECT_EQ(post_atomic(pair.a, pair.b.address()), EOPNOTSUPP);
  EXPECT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 64, 8, pair.b.address(), 64), 0);
  expect_completion(pair.a, 2);
  EXPECT_EQ(word(pair.b), kWord);
}

TEST(Without, AQueuePairForAtomicsIsNotMade) {
  Endpoint end({.device = "emu1"});
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = attributes.recv_cq = end.cq.get();
  attributes.cap = {4, 4, 1, 1, 0};
  attributes.pd = end.pd.get();
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  EXPECT_EQ(ibv_create_qp_ex(end.context.get(), &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  const Qp qp(ibv_create_qp_ex(end.context.get(), &attributes));
  EXPECT_NE(qp, nullptr);
}

TEST(Without, AnAtomicThatArrivesIsAnInvalidRequest) {
  Pair pair({.device = "emu0"}, {.device = "emu1"});
  set_word(pair.b);
  EXPECT_EQ(post_atomic(pair.a, pair.b.address()), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_REQ_ERR);
  EXPECT_EQ(word(pair.b), kWord);
}

}  // namespace
}  // namespace hbmwire::test
