// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "emulation/tests/conformance/link.hpp"

/// Every kind of transfer, on every transport that has it, with ibv_post_send and ibv_poll_cq.
namespace hbmwire::conformance {
namespace {

constexpr const char* kSource =
    "man ibv_post_send: table of opcodes by QP type; man ibv_poll_cq: struct ibv_wc; IBTA vol. 1, "
    "chapter 9, transport services";

constexpr std::uint32_t kSentImmediate = 0x12345678;

class Transfer : public EachTransport {};

TEST_P(Transfer, SendArrives) {
  source(kSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  link.a.fill(0, 500, 3);
  ASSERT_EQ(link.receive(2, 1000, 500), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 500), 0);
  const ibv_wc sent = link.a.expect_sent(1);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  const ibv_wc received = link.b.expect_received(2);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 500 + link.headroom());
  EXPECT_EQ(received.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV), 0U);
  link.b.expect_filled(1000 + link.headroom(), 500, 3);
}

TEST_P(Transfer, SendCarriesItsImmediate) {
  source(kSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ASSERT_EQ(link.receive(2, 0, 100), 0);
  ibv_send_wr request = link.request(IBV_WR_SEND_WITH_IMM, 1);
  request.imm_data = htobe32(kSentImmediate);
  ASSERT_EQ(link.a.post(request, 0, 100), 0);
  EXPECT_EQ(link.a.expect_sent(1).opcode, IBV_WC_SEND);
  const ibv_wc received = link.b.expect_received(2);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(be32toh(received.imm_data), kSentImmediate);
  EXPECT_EQ(received.byte_len, 100 + link.headroom());
}

TEST_P(Transfer, AnEmptySendTakesAReceive) {
  source("IBTA vol. 1, chapter 9, message size: from zero; man ibv_post_send: num_sge may be 0");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ASSERT_EQ(link.receive(2, 0, 100), 0);
  ASSERT_EQ(link.receive(3, 0, 100), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), std::vector<ibv_sge>{}), 0);
  ibv_send_wr second = link.request(IBV_WR_SEND_WITH_IMM, 2);
  second.imm_data = htobe32(kSentImmediate);
  ASSERT_EQ(link.a.post(second, std::vector<ibv_sge>{}), 0);
  link.a.expect_sent(1);
  link.a.expect_sent(2);
  EXPECT_EQ(link.b.expect_received(2).byte_len, link.headroom());
  const ibv_wc received = link.b.expect_received(3);
  EXPECT_EQ(received.byte_len, link.headroom());
  EXPECT_EQ(be32toh(received.imm_data), kSentImmediate);
}

TEST_P(Transfer, InlineSendTakesItsDataAtOnce) {
  source("man ibv_post_send: IBV_SEND_INLINE, the buffer can be reused, the L_Key is not checked");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  std::array<unsigned char, 64> own{};
  own.fill(0x5a);
  ibv_send_wr request = link.request(IBV_WR_SEND, 1);
  request.send_flags |= IBV_SEND_INLINE;
  const ibv_sge unregistered{reinterpret_cast<std::uint64_t>(own.data()), 64, 0xdeadbeef};
  ASSERT_EQ(link.a.post(request, {unregistered}), 0);
  own.fill(0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
  for (unsigned at = 0; at < 64; ++at) ASSERT_EQ(link.b.buffer[link.headroom() + at], 0x5a);
}

TEST_P(Transfer, ElementsAreGatheredAndScattered) {
  source("man ibv_post_send, ibv_post_recv: sg_list; IBTA vol. 1, chapter 10, data segments");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  link.a.fill(0, 3000, 11);
  // From 3 elements of different length, one of which is empty, to 3 others.
  const std::uint32_t head = link.headroom();
  ASSERT_EQ(link.b.receive(2, {link.b.element(0, 70 + head), link.b.element(2000, 1),
                               link.b.element(4000, 300)}),
            0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1),
                        {link.a.element(0, 13), link.a.element(500, 0), link.a.element(13, 287)}),
            0);
  link.a.expect_sent(1);
  EXPECT_EQ(link.b.expect_received(2).byte_len, 300 + head);
  // The 300 bytes fill 70 bytes, 1 byte and 229 of the 300 bytes at 4000.
  std::vector<unsigned char> got(link.b.buffer.begin() + head, link.b.buffer.begin() + head + 70);
  got.push_back(link.b.buffer[2000]);
  got.insert(got.end(), link.b.buffer.begin() + 4000, link.b.buffer.begin() + 4229);
  const std::vector<unsigned char> sent(link.a.buffer.begin(), link.a.buffer.begin() + 300);
  EXPECT_EQ(got, sent);
}

TEST_P(Transfer, MessagesStayInOrder) {
  source("IBTA vol. 1, chapter 9 and 10: ordering of work requests on one queue pair");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  constexpr std::uint64_t kMessages = 12;
  for (std::uint64_t id = 0; id < kMessages; ++id)
    ASSERT_EQ(link.receive(100 + id, id * 256, 100), 0);
  for (std::uint64_t id = 0; id < kMessages; ++id) {
    link.a.fill(id * 100, 100, static_cast<unsigned char>(id));
    ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, id), id * 100, 100), 0);
  }
  for (std::uint64_t id = 0; id < kMessages; ++id) {
    link.a.expect_sent(id);
    link.b.expect_received(100 + id);
    link.b.expect_filled(id * 256 + link.headroom(), 100, static_cast<unsigned char>(id));
  }
}

TEST_P(Transfer, UnsignaledRequestsCompleteSilently) {
  source("man ibv_post_send: IBV_SEND_SIGNALED, relevant only if sq_sig_all is 0");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(link.receive(100 + id, 0, 8), 0);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ibv_send_wr request = link.request(IBV_WR_SEND, id);
    request.send_flags = id == 4 ? unsigned{IBV_SEND_SIGNALED} : 0U;
    ASSERT_EQ(link.a.post(request, 0, 8), 0);
  }
  link.a.expect_sent(4);
  link.a.expect_silence(link.a.send_cq);
  for (std::uint64_t id = 1; id <= 4; ++id) link.b.expect_received(100 + id);
}

TEST_P(Transfer, EverySendIsSignaledWhenTheQpSaysSo) {
  source("man ibv_create_qp: sq_sig_all");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam(), {.a = {.signal_all = true}});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(link.receive(100 + id, 0, 8), 0);
    ibv_send_wr request = link.request(IBV_WR_SEND, id);
    request.send_flags = 0;
    ASSERT_EQ(link.a.post(request, 0, 8), 0);
  }
  for (std::uint64_t id = 1; id <= 3; ++id) link.a.expect_sent(id);
}

TEST_P(Transfer, AListIsPostedInItsOrder) {
  source("man ibv_post_send, ibv_post_recv: a linked list of work requests");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  std::array<ibv_sge, 3> elements{};
  std::array<ibv_send_wr, 3> list{};
  for (std::size_t at = 0; at < list.size(); ++at) {
    ASSERT_EQ(link.receive(100 + at, at * 100, 8), 0);
    elements[at] = link.a.element(at * 8, 8);
    list[at] = link.request(IBV_WR_SEND, at);
    list[at].sg_list = &elements[at];
    list[at].num_sge = 1;
    list[at].next = at + 1 < list.size() ? &list[at + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(link.a.qp.get(), list.data(), &bad), 0);
  for (std::uint64_t id = 0; id < 3; ++id) {
    link.a.expect_sent(id);
    link.b.expect_received(100 + id);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Transfer, testing::ValuesIn(kTransports), transport_name);

/// Messages of critical sizes: odd, one packet, one byte less or more, several packets.
class TransferSize : public EachTransport {
 protected:
  [[nodiscard]] std::vector<std::uint32_t> sizes() const {
    const std::uint32_t mtu = nic.mtu_bytes();
    std::vector<std::uint32_t> all{1, 2, 3, 63, 64, 65, mtu - 1, mtu};
    if (GetParam() != Transport::ud) all.insert(all.end(), {mtu + 1, 2 * mtu, 3 * mtu + 17});
    return all;
  }
};

TEST_P(TransferSize, SendsEachSize) {
  source("IBTA vol. 1, chapter 9, segmentation: messages of zero to 2^31 bytes, UD one packet");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  for (const std::uint32_t size : sizes()) {
    SCOPED_TRACE(size);
    const auto seed = static_cast<unsigned char>(size);
    link.a.fill(0, size, seed);
    ASSERT_EQ(link.receive(2, 0, size), 0);
    ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, size), 0);
    link.a.expect_sent(1);
    EXPECT_EQ(link.b.expect_received(2).byte_len, size + link.headroom());
    link.b.expect_filled(link.headroom(), size, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransferSize, testing::ValuesIn(kTransports), transport_name);

}  // namespace
}  // namespace hbmwire::conformance
