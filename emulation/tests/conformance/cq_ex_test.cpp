// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <ctime>
#include <memory>

#include "emulation/tests/conformance/link.hpp"

/// Extended completion queues, read by ibv_start_poll and the functions that follow it.
namespace hbmwire::conformance {
namespace {

constexpr const char* kReaderSource = "man ibv_create_cq_ex: polling an extended CQ";

constexpr std::uint64_t kFields =
    IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
    IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS;

/// Both CQs of the responder are the same extended one.
class Readers : public EachTransport {
 protected:
  void SetUp() override {
    EachTransport::SetUp();
    source(kReaderSource);
    HBMWIRE_NEED(lacking());
    HBMWIRE_NEED(make(kFields));
    link = std::make_unique<Link>(nic, GetParam(), LinkOptions{.connected = false});
    ibv_qp_init_attr initial{};
    initial.send_cq = initial.recv_cq = ibv_cq_ex_to_cq(cq);
    initial.cap = {16, 16, 2, 2, 0};
    initial.qp_type = responder_type(GetParam());
    link->b.qp.reset(need(ibv_create_qp(nic.pd(), &initial), "ibv_create_qp"));
    link->to_b = link->b.address();
    link->b.connect(link->a.address());
    link->a.connect(link->to_b);
  }

  void TearDown() override {
    link.reset();
    if (cq != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    }
    EachTransport::TearDown();
  }

  /// Makes the CQ. Returns a reason if the device has no extended CQs, else "".
  std::string make(std::uint64_t fields) {
    ibv_cq_init_attr_ex initial{};
    initial.cqe = 32;
    initial.wc_flags = fields;
    cq = ibv_create_cq_ex(nic.context(), &initial);
    if (cq == nullptr && (errno == EOPNOTSUPP || errno == ENOSYS))
      return "the device has no extended CQs";
    EXPECT_NE(cq, nullptr) << errno_name(errno);
    return "";
  }

  /// Starts polling as soon as there is a completion. Returns ibv_start_poll's result.
  int start() {
    ibv_poll_cq_attr attributes{};
    int result = ENOENT;
    wait_until([&] { return (result = ibv_start_poll(cq, &attributes)) != ENOENT; });
    return result;
  }

  ibv_cq_ex* cq = nullptr;
  std::unique_ptr<Link> link;
};

TEST_P(Readers, SayWhenTheCqIsEmpty) {
  ibv_poll_cq_attr attributes{};
  EXPECT_EQ(ibv_start_poll(cq, &attributes), ENOENT);
  // After an error ibv_end_poll must not be called. The CQ can still be used.
  EXPECT_EQ(ibv_start_poll(cq, &attributes), ENOENT);
}

TEST_P(Readers, RefuseUnknownPollAttributes) {
  ibv_poll_cq_attr attributes{};
  attributes.comp_mask = 1U << 31U;
  EXPECT_EQ(ibv_start_poll(cq, &attributes), EINVAL);
}

TEST_P(Readers, GiveTheFieldsOfAReceive) {
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  ibv_send_wr request = link->request(IBV_WR_SEND_WITH_IMM, 1);
  request.imm_data = htobe32(0xabcdef01);
  ASSERT_EQ(link->a.post(request, 0, 77), 0);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(cq->wr_id, 2U);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 77 + link->headroom());
  EXPECT_EQ(be32toh(ibv_wc_read_imm_data(cq)), 0xabcdef01U);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), link->b.qp->qp_num);
  EXPECT_NE(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM, 0U);
  if (GetParam() == Transport::ud) {
    EXPECT_EQ(ibv_wc_read_src_qp(cq), link->a.qp->qp_num);
  }
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
  ibv_wc_read_slid(cq);
  ibv_wc_read_sl(cq);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
}

TEST_P(Readers, GoThroughABatch) {
  for (std::uint64_t id = 1; id <= 5; ++id) {
    ASSERT_EQ(link->receive(100 + id, 0, 100), 0);
    ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, id), 0, static_cast<std::uint32_t>(id)), 0);
    link->a.expect_sent(id);
  }
  std::uint64_t next = 1;
  wait_until([&] {
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(cq, &attributes) != 0) return false;
    do {
      EXPECT_EQ(cq->wr_id, 100 + next);
      EXPECT_EQ(ibv_wc_read_byte_len(cq), next + link->headroom());
      ++next;
    } while (ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
    return next == 6;
  });
  EXPECT_EQ(next, 6U);
}

TEST_P(Readers, GiveStatusAndVendorErrorOfAFlush) {
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  ASSERT_EQ(link->b.to(IBV_QPS_ERR), 0);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(cq->wr_id, 2U);
  EXPECT_EQ(cq->status, IBV_WC_WR_FLUSH_ERR);
  ibv_wc_read_vendor_err(cq);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), link->b.qp->qp_num);
  ibv_end_poll(cq);
}

TEST_P(Readers, LeaveTheCqToThePlainPoll) {
  source("man ibv_create_cq_ex: an extended CQ is a CQ; libibverbs: ibv_cq_ex_to_cq");
  ASSERT_EQ(link->receive(2, 0, 100), 0);
  ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, 1), 0, 8), 0);
  const auto completion = wait_completion(ibv_cq_ex_to_cq(cq));
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->wr_id, 2U);
  EXPECT_EQ(completion->opcode, IBV_WC_RECV);
}

TEST_P(Readers, GiveTheOpcodesOfSends) {
  ASSERT_EQ(link->a.receive(9, 0, 100 + link->headroom()), 0);
  ASSERT_EQ(link->b.post(link->b.request(IBV_WR_SEND, 3, link->a.address()), 0, 8), 0);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(cq->wr_id, 3U);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_SEND);
  ibv_end_poll(cq);
}

INSTANTIATE_TEST_SUITE_P(All, Readers, testing::Values(Transport::rc, Transport::uc, Transport::ud),
                         transport_name);

class ExtendedCqs : public Conformance {
 protected:
  ibv_cq_ex* create(ibv_cq_init_attr_ex initial) {
    return ibv_create_cq_ex(nic.context(), &initial);
  }

  std::string lacking() {
    ibv_cq_init_attr_ex initial{};
    initial.cqe = 4;
    const Cq cq(as_cq(create(initial)));
    if (cq || (errno != EOPNOTSUPP && errno != ENOSYS)) return "";
    return "the device has no extended CQs";
  }

  static ibv_cq* as_cq(ibv_cq_ex* cq) { return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq); }
};

TEST_F(ExtendedCqs, AreAsLongAsAsked) {
  source("man ibv_create_cq_ex: size greater than or equal to the requested size");
  HBMWIRE_NEED(lacking());
  int cookie = 0;
  ibv_cq_init_attr_ex initial{};
  initial.cqe = 33;
  initial.cq_context = &cookie;
  const Cq cq(as_cq(create(initial)));
  ASSERT_TRUE(cq) << errno_name(errno);
  EXPECT_GE(cq->cqe, 33);
  EXPECT_EQ(cq->cq_context, &cookie);
  EXPECT_EQ(cq->context, nic.context());
}

TEST_F(ExtendedCqs, RefuseUnknownFieldsAndMasks) {
  source("man ibv_create_cq_ex: wc_flags, comp_mask; libibverbs providers: EINVAL or EOPNOTSUPP");
  HBMWIRE_NEED(lacking());
  ibv_cq_init_attr_ex fields{};
  fields.cqe = 4;
  fields.wc_flags = 1ULL << 50U;
  EXPECT_EQ(create(fields), nullptr);
  ibv_cq_init_attr_ex mask{};
  mask.cqe = 4;
  mask.comp_mask = 1U << 30U;
  EXPECT_EQ(create(mask), nullptr);
}

TEST_F(ExtendedCqs, RefuseTheLengthsThatPlainCqsRefuse) {
  source("man ibv_create_cq_ex, ibv_query_device: max_cqe");
  HBMWIRE_NEED(lacking());
  ibv_cq_init_attr_ex initial{};
  initial.cqe = 0;
  EXPECT_EQ(create(initial), nullptr);
  initial.cqe = static_cast<std::uint32_t>(nic.limits().max_cqe) + 1;
  EXPECT_EQ(create(initial), nullptr);
}

TEST_F(ExtendedCqs, SingleThreadedOnesWorkOrAreRefused) {
  source("man ibv_create_cq_ex: IBV_CREATE_CQ_ATTR_SINGLE_THREADED");
  HBMWIRE_NEED(lacking());
  ibv_cq_init_attr_ex initial{};
  initial.cqe = 16;
  initial.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  initial.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq_ex* cq = create(initial);
  if (cq == nullptr) {
    EXPECT_TRUE(errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS) << errno_name(errno);
    return;
  }
  ibv_poll_cq_attr attributes{};
  EXPECT_EQ(ibv_start_poll(cq, &attributes), ENOENT);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(ExtendedCqs, TellTheTime) {
  source("man ibv_create_cq_ex: completion timestamps, in HCA clock units and as wall clock");
  HBMWIRE_NEED(lacking());
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(nic.context(), nullptr, &device), 0);
  if (device.completion_timestamp_mask == 0) GTEST_SKIP() << "the device has no timestamps";
  ibv_cq_init_attr_ex initial{};
  initial.cqe = 16;
  initial.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq = create(initial);
  ASSERT_NE(cq, nullptr) << errno_name(errno);
  {
    Side side(nic, {.bytes = 4096});
    ibv_qp_init_attr qp{};
    qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(cq);
    qp.cap = {4, 4, 1, 1, 0};
    qp.qp_type = IBV_QPT_RC;
    side.qp.reset(need(ibv_create_qp(nic.pd(), &qp), "ibv_create_qp"));
    side.connect(side.address());
    std::uint64_t last = 0;
    for (std::uint64_t id = 0; id < 3; ++id) {
      ASSERT_EQ(side.post(side.request(IBV_WR_RDMA_WRITE, id, side.address()), 0, 8), 0);
      ibv_poll_cq_attr attributes{};
      ASSERT_TRUE(wait_until([&] { return ibv_start_poll(cq, &attributes) == 0; }));
      const std::uint64_t now = ibv_wc_read_completion_ts(cq);
      ibv_end_poll(cq);
      EXPECT_GE(now & device.completion_timestamp_mask, last) << "the clock runs forward";
      last = now & device.completion_timestamp_mask;
    }
  }
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

}  // namespace
}  // namespace hbmwire::conformance
