// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// The work request interface, ibv_wr_*: every builder, every setter.
namespace hbmwire::conformance {
namespace {

constexpr const char* kWrSource = "man ibv_wr_post: table of operations, builders and setters";

constexpr std::uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
constexpr std::uint64_t kFetches = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

std::uint64_t operations_of(Transport transport) {
  if (transport == Transport::ud) return kSends;
  if (transport == Transport::uc) return kSends | kWrites;
  return kSends | kWrites | kFetches;
}

class Builders : public EachTransport {
 protected:
  void SetUp() override {
    EachTransport::SetUp();
    source(kWrSource);
    HBMWIRE_NEED(lacking());
    HBMWIRE_NEED(lacks_interface());
    link = std::make_unique<Link>(nic, GetParam(),
                                  LinkOptions{.a = {.send_ops = operations_of(GetParam())}});
    qp = ibv_qp_to_qp_ex(link->a.qp.get());
    ASSERT_NE(qp, nullptr);
    remote = link->to_b.buffer;
    rkey = link->to_b.rkey;
  }

  std::string lacks_interface() {
    const Cq cq = nic.make_cq(4);
    ibv_qp_init_attr_ex initial{};
    initial.qp_type = requester_type(GetParam());
    initial.send_cq = cq.get();
    initial.recv_cq = GetParam() == Transport::xrc ? nullptr : cq.get();
    initial.cap.max_send_wr = initial.cap.max_send_sge = 1;
    initial.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    initial.pd = nic.pd();
    initial.send_ops_flags = IBV_QP_EX_WITH_SEND;
    const Qp made(ibv_create_qp_ex(nic.context(), &initial));
    if (made || (errno != EOPNOTSUPP && errno != ENOSYS)) return "";
    return "the device has no ibv_wr_* interface";
  }

  /// Sets the id and the flags of the next request.
  void begin(std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
    qp->wr_id = id;
    qp->wr_flags = flags;
  }

  /// Calls the setters that the transport needs in addition to the data.
  void aim() {
    if (GetParam() == Transport::ud)
      ibv_wr_set_ud_addr(qp, link->a.ah.get(), link->to_b.qpn, kQkey);
    if (GetParam() == Transport::xrc) ibv_wr_set_xrc_srqn(qp, link->to_b.srqn);
  }

  void set_data(std::size_t offset, std::uint32_t length) {
    const ibv_sge element = link->a.element(offset, length);
    aim();
    ibv_wr_set_sge(qp, element.lkey, element.addr, element.length);
  }

  std::unique_ptr<Link> link;
  ibv_qp_ex* qp = nullptr;
  std::uint64_t remote = 0;
  std::uint32_t rkey = 0;
};

TEST_P(Builders, Send) {
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  link->a.fill(0, 100, 1);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_send(qp);
  set_data(0, 100);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(link->a.expect_sent(1).opcode, IBV_WC_SEND);
  EXPECT_EQ(link->b.expect_received(2).byte_len, 100 + link->headroom());
  link->b.expect_filled(link->headroom(), 100, 1);
}

TEST_P(Builders, SendWithImmediate) {
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_send_imm(qp, htobe32(0x11223344));
  set_data(0, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  link->a.expect_sent(1);
  const ibv_wc received = link->b.expect_received(2);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(be32toh(received.imm_data), 0x11223344U);
}

TEST_P(Builders, InlineData) {
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  std::array<unsigned char, 32> own{};
  own.fill(0x77);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_send(qp);
  aim();
  ibv_wr_set_inline_data(qp, own.data(), own.size());
  own.fill(0);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  link->a.expect_sent(1);
  EXPECT_EQ(link->b.expect_received(2).byte_len, 32 + link->headroom());
  EXPECT_EQ(link->b.buffer[link->headroom() + 31], 0x77) << "the data was taken by the setter";
}

TEST_P(Builders, InlineDataList) {
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  std::array<unsigned char, 20> own{};
  for (std::size_t at = 0; at < own.size(); ++at) own[at] = static_cast<unsigned char>(at);
  const std::array<ibv_data_buf, 3> parts{
      {{own.data(), 3}, {own.data() + 10, 10}, {own.data() + 3, 7}}};
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_send(qp);
  aim();
  ibv_wr_set_inline_data_list(qp, parts.size(), parts.data());
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  link->a.expect_sent(1);
  EXPECT_EQ(link->b.expect_received(2).byte_len, 20 + link->headroom());
  const unsigned char* got = link->b.buffer.data() + link->headroom();
  EXPECT_EQ(got[2], 2);
  EXPECT_EQ(got[3], 10);
  EXPECT_EQ(got[13], 3);
}

TEST_P(Builders, ElementList) {
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  link->a.fill(0, 100, 6);
  const std::array<ibv_sge, 2> parts{link->a.element(0, 33), link->a.element(33, 67)};
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_send(qp);
  aim();
  ibv_wr_set_sge_list(qp, parts.size(), parts.data());
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  link->a.expect_sent(1);
  link->b.expect_received(2);
  link->b.expect_filled(link->headroom(), 100, 6);
}

TEST_P(Builders, ManyInOneBatch) {
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(link->receive(100 + id, 0, 100), 0);
  ibv_wr_start(qp);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    begin(id, id == 2 ? 0U : unsigned{IBV_SEND_SIGNALED});
    ibv_wr_send(qp);
    set_data(0, static_cast<std::uint32_t>(id));
  }
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (const std::uint64_t id : {1U, 3U, 4U}) link->a.expect_sent(id);  // 2 was not signaled
  for (std::uint64_t id = 1; id <= 4; ++id)
    EXPECT_EQ(link->b.expect_received(100 + id).byte_len, id + link->headroom());
}

TEST_P(Builders, AbortDiscardsTheBatch) {
  source("man ibv_wr_post: ibv_wr_abort discards all work prepared since ibv_wr_start");
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_send(qp);
  set_data(0, 8);
  ibv_wr_abort(qp);
  link->a.expect_silence(link->a.send_cq);
  ibv_wr_start(qp);
  begin(7);
  ibv_wr_send(qp);
  set_data(0, 9);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  link->a.expect_sent(7);
  EXPECT_EQ(link->b.expect_received(2).byte_len, 9 + link->headroom());
}

TEST_P(Builders, NothingExecutesBeforeComplete) {
  source("man ibv_wr_post: no work is executed until ibv_wr_complete returns success");
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_send(qp);
  set_data(0, 8);
  link->b.expect_silence(link->b.recv_cq);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  link->a.expect_sent(1);
  link->b.expect_received(2);
}

TEST_P(Builders, AnInvalidRequestFailsItsWholeBatch) {
  source(
      "man ibv_wr_post: with an invalid argument ibv_wr_complete returns failure and the entire "
      "posting is aborted");
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(link->a.qp.get(), &attributes, IBV_QP_CAP, &initial), 0);
  std::vector<ibv_sge> too_many(initial.cap.max_send_sge + 1, link->a.element(0, 1));
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_send(qp);
  set_data(0, 8);
  begin(2);
  ibv_wr_send(qp);
  aim();
  ibv_wr_set_sge_list(qp, too_many.size(), too_many.data());
  EXPECT_NE(ibv_wr_complete(qp), 0);
  link->a.expect_silence(link->a.send_cq);
  link->b.expect_silence(link->b.recv_cq);
}

TEST_P(Builders, ABatchLongerThanTheQueueFails) {
  source(
      "man ibv_wr_post: ibv_wr_complete returns failure and the entire posting is aborted; mlx5: "
      "ENOMEM");
  ibv_wr_start(qp);
  for (std::uint64_t id = 0; id < 8 * link->a.options.send_depth; ++id) {
    begin(id);
    ibv_wr_send(qp);
    set_data(0, 8);
  }
  EXPECT_EQ(ibv_wr_complete(qp), ENOMEM);
  link->a.expect_silence(link->a.send_cq);
}

TEST_P(Builders, BatchesInterleaveWithPlainPosts) {
  source("man ibv_wr_post: batches of both interfaces can interleave");
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_EQ(link->receive(100 + id, 0, 100), 0);
  ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, 1), 0, 8), 0);
  ibv_wr_start(qp);
  begin(2);
  ibv_wr_send(qp);
  set_data(0, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, 3), 0, 8), 0);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    link->a.expect_sent(id);
    link->b.expect_received(100 + id);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Builders, testing::ValuesIn(kTransports), transport_name);

class RdmaBuilders : public Builders {};

TEST_P(RdmaBuilders, Write) {
  link->a.fill(0, 300, 2);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_rdma_write(qp, rkey, remote + 50);
  set_data(0, 300);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(link->a.expect_sent(1).opcode, IBV_WC_RDMA_WRITE);
  wait_until([&] { return link->b.buffer[349] == link->a.buffer[299]; });
  link->b.expect_filled(50, 300, 2);
}

TEST_P(RdmaBuilders, WriteWithImmediate) {
  ASSERT_EQ(link->b.receive(2, std::vector<ibv_sge>{}), 0);
  link->a.fill(0, 30, 2);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_rdma_write_imm(qp, rkey, remote, htobe32(99));
  set_data(0, 30);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  link->a.expect_sent(1);
  const ibv_wc received = link->b.expect_received(2);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(be32toh(received.imm_data), 99U);
  EXPECT_EQ(received.byte_len, 30U);
  link->b.expect_filled(0, 30, 2);
}

INSTANTIATE_TEST_SUITE_P(All, RdmaBuilders,
                         testing::Values(Transport::rc, Transport::uc, Transport::xrc),
                         transport_name);

class ReliableBuilders : public Builders {};

TEST_P(ReliableBuilders, Read) {
  link->b.fill(20, 300, 3);
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_rdma_read(qp, rkey, remote + 20);
  set_data(0, 300);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  const ibv_wc completion = link->a.expect_sent(1);
  EXPECT_EQ(completion.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(completion.byte_len, 300U);
  link->a.expect_filled(0, 300, 3);
}

TEST_P(ReliableBuilders, CompareAndSwap) {
  HBMWIRE_NEED(nic.lacks_atomics());
  *link->b.word(0) = 10;
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_atomic_cmp_swp(qp, rkey, remote, 10, 20);
  set_data(8, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(link->a.expect_sent(1).opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(*link->a.word(8), 10U);
  EXPECT_EQ(*link->b.word(0), 20U);
}

TEST_P(ReliableBuilders, FetchAndAdd) {
  HBMWIRE_NEED(nic.lacks_atomics());
  *link->b.word(0) = 10;
  ibv_wr_start(qp);
  begin(1);
  ibv_wr_atomic_fetch_add(qp, rkey, remote, 5);
  set_data(8, 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(link->a.expect_sent(1).opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(*link->a.word(8), 10U);
  EXPECT_EQ(*link->b.word(0), 15U);
}

INSTANTIATE_TEST_SUITE_P(All, ReliableBuilders, testing::Values(Transport::rc, Transport::xrc),
                         transport_name);

}  // namespace
}  // namespace hbmwire::conformance
