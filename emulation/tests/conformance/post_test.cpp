// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

#include "emulation/tests/conformance/link.hpp"
#include "emulation/tests/conformance/state_table.hpp"

/// Posting: requests that the call refuses, and how it reports that.
namespace hbmwire::conformance {
namespace {

constexpr const char* kPostSource =
    "man ibv_post_send, ibv_post_recv: stops at the first failure that can be detected immediately "
    "and returns it through bad_wr; IBTA vol. 1, chapter 11, Post Send Request, Post Receive "
    "Request: immediate errors";

/// A number between those of the opcodes.
constexpr auto kNoOpcode = static_cast<ibv_wr_opcode>(13);

bool is_refusal(int error) { return error == EINVAL || error == ENOMEM; }

struct OpcodeRow {
  Transport transport;
  const char* name;
  ibv_wr_opcode opcode;
};

std::vector<OpcodeRow> foreign_opcodes() {
  return {{Transport::ud, "RDMA_WRITE", IBV_WR_RDMA_WRITE},
          {Transport::ud, "RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM},
          {Transport::ud, "RDMA_READ", IBV_WR_RDMA_READ},
          {Transport::ud, "ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP},
          {Transport::ud, "ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD},
          {Transport::ud, "LOCAL_INV", IBV_WR_LOCAL_INV},
          {Transport::ud, "BIND_MW", IBV_WR_BIND_MW},
          {Transport::ud, "SEND_WITH_INV", IBV_WR_SEND_WITH_INV},
          {Transport::uc, "RDMA_READ", IBV_WR_RDMA_READ},
          {Transport::uc, "ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP},
          {Transport::uc, "ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD},
          {Transport::uc, "TSO", IBV_WR_TSO},
          {Transport::rc, "TSO", IBV_WR_TSO},
          {Transport::xrc, "TSO", IBV_WR_TSO}};
}

class ForeignOpcode : public ConformanceOf<OpcodeRow> {};

TEST_P(ForeignOpcode, IsRefusedOrFails) {
  source(
      "man ibv_post_send: table of opcodes by QP type; some devices find it out when they "
      "execute the request: IBV_WC_LOC_QP_OP_ERR");
  HBMWIRE_NEED(lacks(nic, GetParam().transport));
  Link link(nic, GetParam().transport);
  ibv_send_wr request = link.request(GetParam().opcode, 1);
  const int error = link.a.post(request, 0, 8);
  if (error != 0) {
    EXPECT_TRUE(error == EINVAL || error == EOPNOTSUPP) << errno_name(error);
    return;
  }
  link.a.expect_sent(1, IBV_WC_LOC_QP_OP_ERR);
}

INSTANTIATE_TEST_SUITE_P(All, ForeignOpcode, testing::ValuesIn(foreign_opcodes()),
                         [](const auto& row) {
                           return std::string(name_of(row.param.transport)) + "_" + row.param.name;
                         });

class Post : public EachTransport {};

TEST_P(Post, UnknownOpcodeIsRefused) {
  source(kPostSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  EXPECT_EQ(link.a.post(link.request(kNoOpcode, 1), 0, 8), EINVAL);
  EXPECT_EQ(link.a.state(), IBV_QPS_RTS);
}

TEST_P(Post, TooManySendElementsAreRefused) {
  source(kPostSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(link.a.qp.get(), &attributes, IBV_QP_CAP, &initial), 0);
  ASSERT_EQ(link.receive(2, 0, 4096), 0);
  std::vector<ibv_sge> elements(initial.cap.max_send_sge, link.a.element(0, 1));
  EXPECT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), elements), 0) << "as many as granted";
  link.a.expect_sent(1);
  elements.push_back(link.a.element(0, 1));
  const int error = link.a.post(link.request(IBV_WR_SEND, 2), elements);
  EXPECT_TRUE(is_refusal(error)) << "one more: " << errno_name(error);
  EXPECT_EQ(link.a.state(), IBV_QPS_RTS);
}

TEST_P(Post, TooManyReceiveElementsAreRefused) {
  source(kPostSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  std::uint32_t granted = 0;
  if (link.b.srq) {
    ibv_srq_attr attributes{};
    ASSERT_EQ(ibv_query_srq(link.b.srq.get(), &attributes), 0);
    granted = attributes.max_sge;
  } else {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr initial{};
    ASSERT_EQ(ibv_query_qp(link.b.qp.get(), &attributes, IBV_QP_CAP, &initial), 0);
    granted = initial.cap.max_recv_sge;
  }
  std::vector<ibv_sge> elements(granted, link.b.element(0, 64));
  EXPECT_EQ(link.b.receive(1, elements), 0) << "as many as granted";
  elements.push_back(link.b.element(0, 64));
  const int error = link.b.receive(2, elements);
  EXPECT_TRUE(is_refusal(error)) << "one more: " << errno_name(error);
}

TEST_P(Post, TooMuchInlineIsRefused) {
  source("man ibv_create_qp: max_inline_data; man ibv_post_send: IBV_SEND_INLINE; mlx5: ENOMEM");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(link.a.qp.get(), &attributes, IBV_QP_CAP, &initial), 0);
  const std::uint32_t most = std::min(initial.cap.max_inline_data, nic.mtu_bytes());
  ASSERT_EQ(link.receive(2, 0, most), 0);
  ibv_send_wr request = link.request(IBV_WR_SEND, 1);
  request.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(link.a.post(request, 0, most), 0) << most << " bytes, as granted";
  link.a.expect_sent(1);
  link.b.expect_received(2);
  const int error = link.a.post(request, 0, initial.cap.max_inline_data + 1);
  EXPECT_TRUE(is_refusal(error)) << "one byte more: " << errno_name(error);
}

TEST_P(Post, FullReceiveQueueIsRefused) {
  source("man ibv_post_recv, ibv_post_srq_recv; Linux rxe, mlx5: ENOMEM when the queue is full");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  const std::uint32_t asked = link.b.srq ? link.b.options.srq_depth : link.b.options.recv_depth;
  std::uint32_t posted = 0;
  int error = 0;
  while (posted < 8 * asked && (error = link.b.receive(posted, 0, 64)) == 0) ++posted;
  EXPECT_GE(posted, asked);
  EXPECT_LT(posted, 8 * asked) << "a queue of " << asked << " never fills";
  EXPECT_EQ(error, ENOMEM) << errno_name(error);
}

TEST_P(Post, SendsAreRefusedInTheStatesThatDoNotSend) {
  source(
      "IBTA vol. 1, chapter 10, table of QP state characteristics: Post Send is an immediate "
      "error in Reset, Init and RTR");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam(), {.connected = false});
  const auto refused = [&] {
    const int error = link.a.post(link.request(IBV_WR_SEND, 1), 0, 8);
    EXPECT_TRUE(is_refusal(error)) << name_of(link.a.state()) << ": " << errno_name(error);
  };
  refused();
  ASSERT_EQ(link.a.to_init(), 0);
  refused();
  ASSERT_EQ(link.a.to_rtr(link.to_b), 0);
  refused();
  ASSERT_EQ(link.a.to_rts(), 0);
  ASSERT_EQ(link.a.to(IBV_QPS_ERR), 0);
  EXPECT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0) << "in ERR it is flushed";
  link.a.expect_sent(1, IBV_WC_WR_FLUSH_ERR);
}

INSTANTIATE_TEST_SUITE_P(All, Post, testing::ValuesIn(kTransports), transport_name);

class PostReceive : public EachTransport {};

TEST_P(PostReceive, ReceivesAreRefusedInResetOnly) {
  source(
      "IBTA vol. 1, chapter 10, table of QP state characteristics: Post Receive is allowed from "
      "Init on; Linux rxe_post_recv: C10-97.2.1");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam(), {.connected = false});
  const int error = link.b.receive(1, 0, 64);
  EXPECT_TRUE(is_refusal(error)) << errno_name(error);
  ASSERT_EQ(link.b.to_init(), 0);
  EXPECT_EQ(link.b.receive(1, 0, 64), 0) << "in INIT";
  ASSERT_EQ(link.b.to_rtr(link.a.address()), 0);
  EXPECT_EQ(link.b.receive(2, 0, 64), 0) << "in RTR";
  ASSERT_EQ(link.b.to_rts(), 0);
  EXPECT_EQ(link.b.receive(3, 0, 64), 0) << "in RTS";
}

TEST_P(PostReceive, ABadRequestIsNamedAndThoseBeforeItArePosted) {
  source(kPostSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(link.b.qp.get(), &attributes, IBV_QP_CAP, &initial), 0);
  ibv_sge good = link.b.element(0, 64);
  std::vector<ibv_sge> too_many(initial.cap.max_recv_sge + 1, good);
  std::array<ibv_recv_wr, 3> list{};
  for (std::size_t at = 0; at < list.size(); ++at)
    list[at] = {10 + at, at + 1 < list.size() ? &list[at + 1] : nullptr, &good, 1};
  list[1].sg_list = too_many.data();
  list[1].num_sge = static_cast<int>(too_many.size());
  ibv_recv_wr* bad = nullptr;
  EXPECT_NE(ibv_post_recv(link.b.qp.get(), list.data(), &bad), 0);
  EXPECT_EQ(bad, &list[1]);
  ASSERT_EQ(link.b.to(IBV_QPS_ERR), 0);
  link.b.expect_received(10, IBV_WC_WR_FLUSH_ERR);
  link.b.expect_silence(link.b.recv_cq);
}

INSTANTIATE_TEST_SUITE_P(All, PostReceive,
                         testing::Values(Transport::rc, Transport::uc, Transport::ud),
                         transport_name);

class PostSend : public Conformance {};

TEST_F(PostSend, ABadRequestIsNamedAndThoseBeforeItArePosted) {
  source(kPostSource);
  Link link(nic, Transport::rc);
  std::array<ibv_send_wr, 4> list{};
  ibv_sge element = link.a.element(0, 8);
  for (std::size_t at = 0; at < list.size(); ++at) {
    list[at] = link.request(at == 2 ? kNoOpcode : IBV_WR_RDMA_WRITE, 10 + at);
    list[at].sg_list = &element;
    list[at].num_sge = 1;
    list[at].next = at + 1 < list.size() ? &list[at + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(link.a.qp.get(), list.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &list[2]);
  link.a.expect_sent(10);
  link.a.expect_sent(11);
  link.a.expect_silence(link.a.send_cq);
  EXPECT_EQ(link.a.state(), IBV_QPS_RTS);
}

TEST_F(PostSend, AFullQueueRefusesAndNamesTheFirstRequestThatDidNotFit) {
  source("man ibv_post_send: bad_wr; Linux rxe, mlx5: ENOMEM when the queue is full");
  Link link(nic, Transport::rc);
  // Nothing is received, so no request completes.
  const std::uint32_t asked = link.a.options.send_depth;
  std::vector<ibv_send_wr> list(8 * asked, link.request(IBV_WR_SEND, 0));
  for (std::size_t at = 0; at < list.size(); ++at) {
    list[at].wr_id = at;
    list[at].next = at + 1 < list.size() ? &list[at + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(link.a.qp.get(), list.data(), &bad), ENOMEM);
  ASSERT_NE(bad, nullptr);
  EXPECT_GE(bad->wr_id, asked) << "as many as granted fit";
  ibv_send_wr again = link.request(IBV_WR_SEND, 1000);
  EXPECT_EQ(link.a.post(again, std::vector<ibv_sge>{}), ENOMEM);
}

TEST_F(PostSend, SlotsComeBackWithTheirCompletions) {
  source(
      "IBTA vol. 1, chapter 10, work queues: a slot is free once its completion, or a later one, "
      "is polled");
  Link link(nic, Transport::rc);
  const std::uint32_t depth = link.a.options.send_depth;
  for (std::uint64_t round = 0; round < 5; ++round) {
    for (std::uint32_t at = 0; at < depth; ++at) {
      ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, at);
      write.send_flags = at + 1 == depth ? unsigned{IBV_SEND_SIGNALED} : 0U;
      ASSERT_EQ(link.a.post(write, 0, 8), 0) << "round " << round << ", request " << at;
    }
    link.a.expect_sent(depth - 1);
  }
}

TEST_F(PostSend, AQpWithAnSrqHasNoReceiveQueueOfItsOwn) {
  source(
      "man ibv_post_recv: use ibv_post_srq_recv for a QP with an SRQ; Linux rxe_post_recv: "
      "EINVAL");
  HBMWIRE_NEED(nic.lacks_srq());
  Link link(nic, Transport::rc, {.b = {.with_srq = true}});
  ibv_sge element = link.b.element(0, 64);
  ibv_recv_wr request{1, nullptr, &element, 1};
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(link.b.qp.get(), &request, &bad);
  EXPECT_TRUE(is_refusal(error)) << errno_name(error);
  EXPECT_EQ(bad, &request);
}

TEST_F(PostSend, InlineReadIsRefusedOrFails) {
  source(
      "man ibv_post_send: IBV_SEND_INLINE is valid only for Send and RDMA Write; Linux "
      "validate_send_wr: EINVAL");
  Link link(nic, Transport::rc);
  ibv_send_wr request = link.request(IBV_WR_RDMA_READ, 1);
  request.send_flags |= IBV_SEND_INLINE;
  const int error = link.a.post(request, 0, 8);
  if (error != 0) {
    EXPECT_EQ(error, EINVAL);
    return;
  }
  const std::optional<ibv_wc> completion = wait_completion(link.a.send_cq.get());
  ASSERT_TRUE(completion.has_value());
  EXPECT_NE(completion->status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::conformance
