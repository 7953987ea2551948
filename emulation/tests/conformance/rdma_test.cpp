// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// RDMA and atomics, and the order of requests in a connection.
namespace hbmwire::conformance {
namespace {

constexpr const char* kTransferSource =
    "man ibv_post_send: table of opcodes by QP type; man ibv_poll_cq: struct ibv_wc; IBTA vol. 1, "
    "chapter 9, transport services";

constexpr std::uint32_t kImmediate = 0x12345678;

/// Cases for connected transports.
class Rdma : public EachTransport {};

TEST_P(Rdma, WriteArrivesWithoutAReceive) {
  source(kTransferSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  for (const std::uint32_t size : {1U, 64U, 5000U, 3 * nic.mtu_bytes() + 1}) {
    link.a.fill(0, size, static_cast<unsigned char>(size));
    ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1, 7), 0, size), 0);
    EXPECT_EQ(link.a.expect_sent(1).opcode, IBV_WC_RDMA_WRITE);
    // On an unreliable transport the completion only means that the request was sent.
    wait_until([&] { return link.b.buffer[7 + size - 1] == link.a.buffer[size - 1]; });
    link.b.expect_filled(7, size, static_cast<unsigned char>(size));
  }
  link.b.expect_silence(link.b.recv_cq);
}

TEST_P(Rdma, WriteWithImmediateTakesAReceive) {
  source(kTransferSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  link.a.fill(0, 600, 9);
  ASSERT_EQ(link.b.receive(2, std::vector<ibv_sge>{}), 0);
  ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE_WITH_IMM, 1, 100);
  request.imm_data = htobe32(kImmediate);
  ASSERT_EQ(link.a.post(request, 0, 600), 0);
  EXPECT_EQ(link.a.expect_sent(1).opcode, IBV_WC_RDMA_WRITE);
  const ibv_wc received = link.b.expect_received(2);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(be32toh(received.imm_data), kImmediate);
  EXPECT_EQ(received.byte_len, 600U);
  link.b.expect_filled(100, 600, 9);
}

TEST_P(Rdma, WriteWithImmediateLeavesTheReceiveBufferAlone) {
  source("IBTA vol. 1, chapter 9, RDMA WRITE with immediate: no data goes to the receive buffer");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  link.a.fill(0, 32, 1);
  link.b.fill(8000, 32, 77);
  ASSERT_EQ(link.b.receive(2, 8000, 32), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0), 0, 32), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
  link.b.expect_filled(8000, 32, 77);
  link.b.expect_filled(0, 32, 1);
}

TEST_P(Rdma, InlineWriteArrives) {
  source("man ibv_post_send: IBV_SEND_INLINE, valid only for Send and RDMA Write");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  std::array<unsigned char, 48> own{};
  own.fill(0x33);
  ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE, 1, 16);
  request.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(link.a.post(request, {{reinterpret_cast<std::uint64_t>(own.data()), 48, 0}}), 0);
  own.fill(0);
  link.a.expect_sent(1);
  EXPECT_TRUE(wait_until([&] { return link.b.buffer[63] == 0x33; }));
  EXPECT_EQ(link.b.buffer[16], 0x33);
  EXPECT_EQ(link.b.buffer[15], 0);
  EXPECT_EQ(link.b.buffer[64], 0);
}

TEST_P(Rdma, AnEmptyWriteNeedsNoKey) {
  source("IBTA vol. 1, chapter 9, C9-88: the R_Key of a zero-length RDMA request is not checked");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE, 1);
  request.wr.rdma.rkey = 0;
  request.wr.rdma.remote_addr = 0;
  ASSERT_EQ(link.a.post(request, std::vector<ibv_sge>{}), 0);
  link.a.expect_sent(1);
  EXPECT_EQ(link.b.state(), IBV_QPS_RTS);
}

INSTANTIATE_TEST_SUITE_P(All, Rdma, testing::Values(Transport::rc, Transport::uc, Transport::xrc),
                         transport_name);

/// Cases for reliable transports.
class Reliable : public EachTransport {};

TEST_P(Reliable, ReadFetches) {
  source(kTransferSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  for (const std::uint32_t size : {1U, 64U, 5000U, 3 * nic.mtu_bytes() + 1}) {
    link.b.fill(9, size, static_cast<unsigned char>(size + 1));
    ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_READ, 1, 9), 0, size), 0);
    const ibv_wc completion = link.a.expect_sent(1);
    EXPECT_EQ(completion.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(completion.byte_len, size);
    link.a.expect_filled(0, size, static_cast<unsigned char>(size + 1));
  }
}

TEST_P(Reliable, ReadScatters) {
  source("man ibv_post_send: sg_list of a read is where the data goes");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  link.b.fill(0, 100, 5);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_READ, 1),
                        {link.a.element(0, 1), link.a.element(200, 59), link.a.element(100, 40)}),
            0);
  link.a.expect_sent(1);
  EXPECT_EQ(link.a.buffer[0], link.b.buffer[0]);
  EXPECT_TRUE(std::equal(link.b.buffer.begin() + 1, link.b.buffer.begin() + 60,
                         link.a.buffer.begin() + 200));
  EXPECT_TRUE(std::equal(link.b.buffer.begin() + 60, link.b.buffer.begin() + 100,
                         link.a.buffer.begin() + 100));
}

TEST_P(Reliable, ReadOfNothingSucceeds) {
  source("IBTA vol. 1, chapter 9, C9-88: the R_Key of a zero-length RDMA request is not checked");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ibv_send_wr request = link.request(IBV_WR_RDMA_READ, 1);
  request.wr.rdma.rkey = 0;
  ASSERT_EQ(link.a.post(request, std::vector<ibv_sge>{}), 0);
  EXPECT_EQ(link.a.expect_sent(1).opcode, IBV_WC_RDMA_READ);
}

TEST_P(Reliable, FetchAndAddAdds) {
  source("man ibv_post_send: IBV_WR_ATOMIC_FETCH_AND_ADD; IBTA vol. 1, chapter 9, ATOMIC");
  HBMWIRE_NEED(lacking());
  HBMWIRE_NEED(nic.lacks_atomics());
  Link link(nic, GetParam());
  *link.b.word(64) = 40;
  ibv_send_wr request = link.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 64);
  request.wr.atomic.compare_add = 2;
  ASSERT_EQ(link.a.post(request, 8, 8), 0);
  const ibv_wc completion = link.a.expect_sent(1);
  EXPECT_EQ(completion.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(*link.a.word(8), 40U) << "the original value comes back";
  EXPECT_EQ(*link.b.word(64), 42U);
}

TEST_P(Reliable, FetchAndAddWrapsAround) {
  source("IBTA vol. 1, chapter 9, ATOMIC FetchAdd: 64-bit addition without carry out");
  HBMWIRE_NEED(lacking());
  HBMWIRE_NEED(nic.lacks_atomics());
  Link link(nic, GetParam());
  *link.b.word(0) = ~0ULL;
  ibv_send_wr request = link.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
  request.wr.atomic.compare_add = 3;
  ASSERT_EQ(link.a.post(request, 8, 8), 0);
  link.a.expect_sent(1);
  EXPECT_EQ(*link.a.word(8), ~0ULL);
  EXPECT_EQ(*link.b.word(0), 2U);
}

TEST_P(Reliable, CompareAndSwapReplacesAnEqualValue) {
  source("man ibv_post_send: IBV_WR_ATOMIC_CMP_AND_SWP; IBTA vol. 1, chapter 9, ATOMIC");
  HBMWIRE_NEED(lacking());
  HBMWIRE_NEED(nic.lacks_atomics());
  Link link(nic, GetParam());
  *link.b.word(8) = 0x1122334455667788;
  ibv_send_wr request = link.request(IBV_WR_ATOMIC_CMP_AND_SWP, 1, 8);
  request.wr.atomic.compare_add = 0x1122334455667788;
  request.wr.atomic.swap = 7;
  ASSERT_EQ(link.a.post(request, 0, 8), 0);
  EXPECT_EQ(link.a.expect_sent(1).opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(*link.a.word(0), 0x1122334455667788U);
  EXPECT_EQ(*link.b.word(8), 7U);
}

TEST_P(Reliable, CompareAndSwapLeavesADifferentValue) {
  source("man ibv_post_send: IBV_WR_ATOMIC_CMP_AND_SWP; IBTA vol. 1, chapter 9, ATOMIC");
  HBMWIRE_NEED(lacking());
  HBMWIRE_NEED(nic.lacks_atomics());
  Link link(nic, GetParam());
  *link.b.word(8) = 5;
  ibv_send_wr request = link.request(IBV_WR_ATOMIC_CMP_AND_SWP, 1, 8);
  request.wr.atomic.compare_add = 6;
  request.wr.atomic.swap = 7;
  ASSERT_EQ(link.a.post(request, 0, 8), 0);
  EXPECT_EQ(link.a.expect_sent(1).opcode, IBV_WC_COMP_SWAP) << "no match is no error";
  EXPECT_EQ(*link.a.word(0), 5U);
  EXPECT_EQ(*link.b.word(8), 5U);
}

TEST_P(Reliable, FenceKeepsReadsBeforeLaterRequests) {
  source("man ibv_post_send: IBV_SEND_FENCE; IBTA vol. 1, chapter 10, fence indicator");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  link.b.fill(0, 1000, 4);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_READ, 1), 0, 1000), 0);
  ibv_send_wr back = link.request(IBV_WR_RDMA_WRITE, 2, 5000);
  back.send_flags |= IBV_SEND_FENCE;
  ASSERT_EQ(link.a.post(back, 0, 1000), 0);
  link.a.expect_sent(1);
  link.a.expect_sent(2);
  link.b.expect_filled(5000, 1000, 4);
}

TEST_P(Reliable, ReadSeesTheWriteBeforeIt) {
  source("IBTA vol. 1, chapter 9, ordering: a responder executes requests in order");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  link.a.fill(0, 4000, 6);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1, 0), 0, 4000), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_READ, 2, 0), 8000, 4000), 0);
  link.a.expect_sent(1);
  link.a.expect_sent(2);
  link.a.expect_filled(8000, 4000, 6);
}

INSTANTIATE_TEST_SUITE_P(All, Reliable, testing::Values(Transport::rc, Transport::xrc),
                         transport_name);

class Connected : public Conformance {};

TEST_F(Connected, BothEndsSendAtOnce) {
  source("IBTA vol. 1, chapter 9: a reliable connection carries requests both ways");
  Link link(nic, Transport::rc);
  const Address to_a = link.a.address();
  for (std::uint64_t id = 0; id < 8; ++id) {
    ASSERT_EQ(link.a.receive(200 + id, 8192, 16), 0);
    ASSERT_EQ(link.b.receive(100 + id, 8192, 16), 0);
    ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, id), 0, 16), 0);
    ASSERT_EQ(link.b.post(link.b.request(IBV_WR_SEND, id, to_a), 0, 16), 0);
  }
  for (std::uint64_t id = 0; id < 8; ++id) {
    link.a.expect_sent(id);
    link.b.expect_sent(id);
    link.a.expect_received(200 + id);
    link.b.expect_received(100 + id);
  }
}

TEST_F(Connected, AQpTalksToItself) {
  source("IBTA vol. 1, chapter 9: nothing forbids a connection of a QP to itself (loopback)");
  Side side(nic, {});
  const Address itself = side.address();
  side.connect(itself);
  side.fill(0, 200, 8);
  ASSERT_EQ(side.receive(2, 1000, 200), 0);
  ASSERT_EQ(side.post(side.request(IBV_WR_SEND, 1, itself), 0, 200), 0);
  side.expect_sent(1);
  side.expect_received(2);
  side.expect_filled(1000, 200, 8);
}

}  // namespace
}  // namespace hbmwire::conformance
