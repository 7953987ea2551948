// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "emulation/tests/nic/extended_endpoint.hpp"
#include "emulation/tests/nic/window_steps.hpp"

/// man ibv_wr_post: the ibv_wr_* functions on RC, UC and UD queue pairs.
namespace hbmwire::test {
namespace {

class WorkRequests : public ::testing::TestWithParam<ibv_qp_type> {};

TEST_P(WorkRequests, EachTypeOffersTheOperationsOfTheManual) {
  Endpoint at;
  for (std::uint64_t op = 1; op <= IBV_QP_EX_WITH_TSO; op <<= 1U) {
    ibv_qp_init_attr_ex attributes = attributes_of(at, GetParam());
    attributes.send_ops_flags = op;
    const Qp qp(ibv_create_qp_ex(at.context.get(), &attributes));
    EXPECT_EQ(qp != nullptr, (ops_of(GetParam()) & op) != 0) << "send op " << op;
    EXPECT_TRUE(qp || errno == EOPNOTSUPP);
  }
}

INSTANTIATE_TEST_SUITE_P(QueuePairs, WorkRequests,
                         ::testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD),
                         [](const auto& instance) {
                           return std::string(instance.param == IBV_QPT_RC   ? "Rc"
                                              : instance.param == IBV_QPT_UC ? "Uc"
                                                                             : "Ud");
                         });

TEST(ExtendedQueuePair, RefusesUnsupportedFeatures) {
  Endpoint at;
  for (const std::uint32_t unknown :
       {IBV_QP_INIT_ATTR_MAX_TSO_HEADER, IBV_QP_INIT_ATTR_IND_TABLE, IBV_QP_INIT_ATTR_RX_HASH}) {
    ibv_qp_init_attr_ex attributes = attributes_of(at, IBV_QPT_RC);
    attributes.comp_mask |= unknown;
    EXPECT_EQ(ibv_create_qp_ex(at.context.get(), &attributes), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP) << "comp_mask bit " << unknown;
  }
  ibv_qp_init_attr_ex attributes = attributes_of(at, IBV_QPT_UD);
  attributes.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attributes.create_flags = IBV_QP_CREATE_SOURCE_QPN;
  EXPECT_EQ(ibv_create_qp_ex(at.context.get(), &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attributes.create_flags = 0;
  EXPECT_NE(Qp(ibv_create_qp_ex(at.context.get(), &attributes)), nullptr);
  attributes = attributes_of(at, IBV_QPT_RC);
  attributes.pd = nullptr;
  EXPECT_EQ(ibv_create_qp_ex(at.context.get(), &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(ExtendedQueuePair, HasTheFunctionsOnlyIfAskedFor) {
  Endpoint at;
  ibv_qp_init_attr_ex attributes = attributes_of(at, IBV_QPT_UC);
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  const Qp qp(ibv_create_qp_ex(at.context.get(), &attributes));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp.get()), nullptr);
}

TEST_P(WorkRequests, SendWithImmediateComesThrough) {
  ExtendedPair pair(GetParam());
  const bool datagram = GetParam() == IBV_QPT_UD;
  const std::size_t header = datagram ? 40 : 0;
  ASSERT_EQ(pair.b.post_recv(1, 0, 100), 0);
  std::memcpy(pair.a.buffer.data(), "hello", 6);
  ibv_ah_attr path = Extended::path_to(pair.b.address());
  ibv_ah* ah = ibv_create_ah(pair.a.pd.get(), &path);
  ibv_wr_start(pair.a.ex);
  pair.a.ex->wr_id = 5;
  ibv_wr_send_imm(pair.a.ex, 77);
  if (datagram) ibv_wr_set_ud_addr(pair.a.ex, ah, pair.b.qp->qp_num, kQkey);
  set_data(pair.a, 0, 6);
  ASSERT_EQ(ibv_wr_complete(pair.a.ex), 0);
  expect_completion(pair.a, 5);
  const ibv_wc received = expect_completion(pair.b, 1);
  EXPECT_EQ(received.imm_data, 77U);
  EXPECT_EQ(received.byte_len, header + 6);
  EXPECT_STREQ(reinterpret_cast<const char*>(pair.b.buffer.data()) + header, "hello");
  ibv_destroy_ah(ah);
}

/// man ibv_post_send, the table of opcodes.
TEST_P(WorkRequests, PostSendTakesTheSameOperations) {
  constexpr std::array kOpcodes{IBV_WR_RDMA_WRITE,
                                IBV_WR_RDMA_WRITE_WITH_IMM,
                                IBV_WR_SEND,
                                IBV_WR_SEND_WITH_IMM,
                                IBV_WR_RDMA_READ,
                                IBV_WR_ATOMIC_CMP_AND_SWP,
                                IBV_WR_ATOMIC_FETCH_AND_ADD,
                                IBV_WR_LOCAL_INV,
                                IBV_WR_BIND_MW,
                                IBV_WR_SEND_WITH_INV,
                                IBV_WR_TSO};
  for (std::size_t index = 0; index < kOpcodes.size(); ++index) {
    ExtendedPair pair(GetParam());
    const Mw window = alloc_window(pair.a, IBV_MW_TYPE_2);
    ibv_ah_attr path = Extended::path_to(pair.b.address());
    ibv_ah* ah = ibv_create_ah(pair.a.pd.get(), &path);
    ibv_send_wr request{};
    request.opcode = kOpcodes[index];
    if (GetParam() == IBV_QPT_UD) request.wr.ud.ah = ah;
    if (GetParam() != IBV_QPT_UD && request.opcode == IBV_WR_BIND_MW) {
      request.bind_mw.mw = window.get();
      request.bind_mw.bind_info = part_of(pair.a, 0, 8, IBV_ACCESS_REMOTE_READ);
    }
    // The bits of send_ops_flags are in the order of the opcodes above; IBV_QP_EX_WITH_TSO is the
    // last.
    const bool taken = (ops_of(GetParam()) >> index & 1U) != 0;
    EXPECT_EQ(pair.a.post(request, {}), taken ? 0 : EINVAL) << "opcode " << request.opcode;
    ibv_destroy_ah(ah);
  }
}

TEST(WorkRequest, IsRefusedIfItAsksForAChecksum) {
  ExtendedPair pair;
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_IP_CSUM;
  EXPECT_EQ(pair.a.post(request, {pair.a.element(0, 8)}), EINVAL);
}

TEST(WorkRequest, NeedsTheSettersOfItsQueuePairsType) {
  ExtendedPair pair(IBV_QPT_UD);
  ibv_wr_start(pair.a.ex);
  ibv_wr_send(pair.a.ex);
  set_data(pair.a, 0, 6);
  EXPECT_EQ(ibv_wr_complete(pair.a.ex), EINVAL) << "the request has no destination";
  ibv_wr_start(pair.a.ex);
  ibv_wr_send(pair.a.ex);
  ibv_wr_set_ud_addr(pair.a.ex, nullptr, 1, kQkey);
  EXPECT_EQ(ibv_wr_complete(pair.a.ex), EINVAL);
  ExtendedPair connected;
  ibv_wr_start(connected.a.ex);
  ibv_wr_send(connected.a.ex);
  ibv_wr_set_xrc_srqn(connected.a.ex, 1);
  EXPECT_EQ(ibv_wr_complete(connected.a.ex), EINVAL) << "not an XRC queue pair";
}

TEST(WorkRequest, AWrongRequestPreventsItsWholeBatch) {
  ExtendedPair pair;
  const auto batch = [&](auto wrong) {
    ibv_wr_start(pair.a.ex);
    ibv_wr_rdma_write(pair.a.ex, pair.b.mr->rkey, pair.b.address().buffer);
    set_data(pair.a, 0, 6);
    wrong();
    return ibv_wr_complete(pair.a.ex);
  };
  pair.a.buffer[0] = 0x44;
  char large[65] = {};
  EXPECT_EQ(batch([&] {
              ibv_wr_send(pair.a.ex);
              ibv_wr_set_inline_data(pair.a.ex, large, sizeof large);
            }),
            EINVAL)
      << "more than max_inline_data";
  EXPECT_EQ(batch([&] {
              ibv_wr_rdma_read(pair.a.ex, pair.b.mr->rkey, pair.b.address().buffer);
              ibv_wr_set_inline_data(pair.a.ex, large, 4);
            }),
            EINVAL)
      << "a READ has nowhere to put inline data";
  EXPECT_EQ(batch([&] {
              const std::vector<ibv_sge> five(5, pair.a.element(0, 1));
              ibv_wr_send(pair.a.ex);
              ibv_wr_set_sge_list(pair.a.ex, five.size(), five.data());
            }),
            EINVAL)
      << "more than max_send_sge";
  EXPECT_EQ(batch([&] { ibv_wr_send_tso(pair.a.ex, large, 4, 4); }), EOPNOTSUPP);
  EXPECT_EQ(batch([&] {
              ibv_wr_local_inv(pair.a.ex, 1);
              set_data(pair.a, 0, 1);
            }),
            EINVAL)
      << "LOCAL_INV has no data";
  EXPECT_EQ(batch([&] {
              for (int i = 0; i < 16; ++i) ibv_wr_send(pair.a.ex);
            }),
            ENOMEM)
      << "17 requests, a depth of 16";
  EXPECT_FALSE(pair.a.wait(std::chrono::milliseconds(20)).has_value());
  EXPECT_EQ(pair.b.buffer[0], 0);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
  EXPECT_EQ(batch([] {}), 0) << "errors of earlier batches are gone";
  expect_completion(pair.a, 0);
  EXPECT_EQ(pair.b.buffer[0], 0x44);
}

TEST(WorkRequest, SetterWithoutARequestIsAnError) {
  ExtendedPair pair;
  ibv_wr_start(pair.a.ex);
  set_data(pair.a, 0, 4);
  EXPECT_EQ(ibv_wr_complete(pair.a.ex), EINVAL);
  ibv_wr_start(pair.a.ex);
  EXPECT_EQ(ibv_wr_complete(pair.a.ex), 0) << "an empty batch is valid";
}

TEST(WorkRequest, AnOperationThatTheTypeLacksIsRefused) {
  ExtendedPair pair(IBV_QPT_UC);
  ibv_wr_start(pair.a.ex);
  ibv_wr_rdma_read(pair.a.ex, pair.b.mr->rkey, pair.b.address().buffer);
  set_data(pair.a, 0, 4);
  EXPECT_EQ(ibv_wr_complete(pair.a.ex), EINVAL);
}

TEST(WorkRequest, IsDiscardedByAbort) {
  ExtendedPair pair;
  ibv_wr_start(pair.a.ex);
  pair.a.ex->wr_id = 1;
  ibv_wr_rdma_write(pair.a.ex, pair.b.mr->rkey, pair.b.address().buffer);
  set_data(pair.a, 0, 4);
  ibv_wr_abort(pair.a.ex);
  ibv_wr_start(pair.a.ex);
  pair.a.ex->wr_id = 2;
  ibv_wr_rdma_read(pair.a.ex, pair.b.mr->rkey, pair.b.address().buffer);
  set_data(pair.a, 0, 4);
  ASSERT_EQ(ibv_wr_complete(pair.a.ex), 0);
  expect_completion(pair.a, 2);
  EXPECT_FALSE(pair.a.wait(std::chrono::milliseconds(20)).has_value());
}

TEST(WorkRequest, InlineDataIsCopiedByTheSetter) {
  ExtendedPair pair;
  char first[] = "in";
  char second[] = "line";
  const ibv_data_buf buffers[] = {{first, 2}, {second, 5}};
  ibv_wr_start(pair.a.ex);
  ibv_wr_rdma_write(pair.a.ex, pair.b.mr->rkey, pair.b.address().buffer);
  ibv_wr_set_inline_data_list(pair.a.ex, 2, buffers);
  std::memset(first, 'x', 2);
  std::memset(second, 'x', 4);
  ASSERT_EQ(ibv_wr_complete(pair.a.ex), 0);
  expect_completion(pair.a, 0);
  EXPECT_STREQ(reinterpret_cast<const char*>(pair.b.buffer.data()), "inline");
}

TEST(WorkRequest, AtomicsGiveTheOldValue) {
  ExtendedPair pair;
  std::uint64_t value = 40;
  std::memcpy(pair.b.buffer.data(), &value, sizeof value);
  ibv_wr_start(pair.a.ex);
  ibv_wr_atomic_fetch_add(pair.a.ex, pair.b.mr->rkey, pair.b.address().buffer, 2);
  set_data(pair.a, 0, 8);
  ibv_wr_atomic_cmp_swp(pair.a.ex, pair.b.mr->rkey, pair.b.address().buffer, 42, 99);
  set_data(pair.a, 8, 8);
  ASSERT_EQ(ibv_wr_complete(pair.a.ex), 0);
  EXPECT_EQ(expect_completion(pair.a, 0).opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(expect_completion(pair.a, 0).opcode, IBV_WC_COMP_SWAP);
  std::uint64_t old[2] = {};
  std::memcpy(old, pair.a.buffer.data(), sizeof old);
  EXPECT_EQ(old[0], 40U);
  EXPECT_EQ(old[1], 42U);
  std::memcpy(&value, pair.b.buffer.data(), sizeof value);
  EXPECT_EQ(value, 99U);
}

/// One side binds a window. The other side writes through it and invalidates it, in one batch.
TEST(WorkRequest, WindowsAreBoundAndInvalidated) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    ExtendedPair pair(type);
    const Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
    const std::uint32_t rkey = ibv_inc_rkey(window->rkey);
    const ibv_mw_bind_info info = part_of(pair.b, 512, 64, IBV_ACCESS_REMOTE_WRITE);
    ibv_wr_start(pair.b.ex);
    ibv_wr_bind_mw(pair.b.ex, window.get(), rkey, &info);
    ASSERT_EQ(ibv_wr_complete(pair.b.ex), 0);
    EXPECT_EQ(expect_completion(pair.b, 0).opcode, IBV_WC_BIND_MW);
    ASSERT_EQ(pair.b.post_recv(1, 0, 16), 0);
    pair.a.buffer[0] = 0x19;
    ibv_wr_start(pair.a.ex);
    ibv_wr_rdma_write(pair.a.ex, rkey, pair.b.address().buffer + 512);
    set_data(pair.a, 0, 4);
    ibv_wr_send_inv(pair.a.ex, rkey);
    set_data(pair.a, 0, 4);
    ASSERT_EQ(ibv_wr_complete(pair.a.ex), 0);
    expect_completion(pair.a, 0);
    expect_completion(pair.a, 0);
    EXPECT_EQ(expect_completion(pair.b, 1).invalidated_rkey, rkey);
    EXPECT_EQ(pair.b.buffer[512], 0x19);
    ibv_wr_start(pair.b.ex);
    ibv_wr_local_inv(pair.b.ex, rkey);
    ASSERT_EQ(ibv_wr_complete(pair.b.ex), 0);
    expect_completion(pair.b, 0, IBV_WC_MW_BIND_ERR);  // it is invalid already
    EXPECT_EQ(pair.b.state(), type == IBV_QPT_RC ? IBV_QPS_ERR : IBV_QPS_SQE);
  }
}

TEST(WorkRequest, BindOfAType1WindowIsRefused) {
  ExtendedPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  const ibv_mw_bind_info info = part_of(pair.b, 0, 64, IBV_ACCESS_REMOTE_WRITE);
  ibv_wr_start(pair.b.ex);
  ibv_wr_bind_mw(pair.b.ex, window.get(), 1, &info);
  EXPECT_EQ(ibv_wr_complete(pair.b.ex), EINVAL);
}

}  // namespace
}  // namespace hbmwire::test
