// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "emulation/tests/conformance/side.hpp"

/// The limits that ibv_query_device reports: values up to the limit are accepted, others refused.
namespace hbmwire::conformance {
namespace {

bool is_a_refusal(int error) { return error == EINVAL || error == ENOMEM; }

class Limits : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    source(
        "man ibv_query_device; man ibv_create_qp, ibv_create_cq, ibv_create_srq: a request beyond "
        "the device's limits fails; Linux mlx5, rxe: EINVAL or ENOMEM");
  }

  /// Makes a QP with these capabilities. Sets `cap` to the granted ones; returns 0 or errno.
  int make(ibv_qp_cap& cap, ibv_qp_type type = IBV_QPT_RC) {
    ibv_qp_init_attr initial{};
    initial.send_cq = cq.get();
    initial.recv_cq = cq.get();
    initial.cap = cap;
    initial.qp_type = type;
    const Qp qp(ibv_create_qp(nic.pd(), &initial));
    const int error = qp ? 0 : errno;
    cap = initial.cap;
    return error;
  }

  /// Expects a QP with this capability at the limit to be made, and one more to be refused.
  void expect_limit(std::uint32_t ibv_qp_cap::*member, int limit, const char* what) {
    const auto most = static_cast<std::uint32_t>(limit);
    // max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data
    ibv_qp_cap cap{1, 1, 1, 1, 0};
    cap.*member = most;
    EXPECT_EQ(make(cap), 0) << what << " " << most << ", the limit";
    EXPECT_GE(cap.*member, most) << "the granted " << what;
    cap = {1, 1, 1, 1, 0};
    cap.*member = most + 1;
    const int error = make(cap);
    EXPECT_TRUE(is_a_refusal(error)) << what << " beyond the limit: " << errno_name(error);
  }

  Cq cq = nic.make_cq();
};

TEST_F(Limits, SendQueueLength) {
  expect_limit(&ibv_qp_cap::max_send_wr, nic.limits().max_qp_wr, "max_send_wr");
}

TEST_F(Limits, ReceiveQueueLength) {
  expect_limit(&ibv_qp_cap::max_recv_wr, nic.limits().max_qp_wr, "max_recv_wr");
}

TEST_F(Limits, SendElements) {
  expect_limit(&ibv_qp_cap::max_send_sge, nic.limits().max_sge, "max_send_sge");
}

TEST_F(Limits, ReceiveElements) {
  expect_limit(&ibv_qp_cap::max_recv_sge, nic.limits().max_sge, "max_recv_sge");
}

TEST_F(Limits, InlineDataHasSomeLimit) {
  ibv_qp_cap cap{1, 1, 1, 1, 64};
  EXPECT_EQ(make(cap), 0);
  EXPECT_GE(cap.max_inline_data, 64U);
  cap = {1, 1, 1, 1, 1U << 30U};
  const int error = make(cap);
  EXPECT_TRUE(is_a_refusal(error)) << "a gibibyte inline: " << errno_name(error);
}

TEST_F(Limits, EmptyQueuesAreAllowed) {
  source("IBTA vol. 1, chapter 11, Create Queue Pair; Linux rxe, mlx5: a queue of length 0");
  ibv_qp_cap cap{0, 1, 0, 1, 0};
  EXPECT_EQ(make(cap), 0) << "no send queue";
  cap = {1, 0, 1, 0, 0};
  EXPECT_EQ(make(cap), 0) << "no receive queue";
}

TEST_F(Limits, GrantedCapabilitiesAreNotLessThanAsked) {
  source("man ibv_create_qp: the values will be greater than or equal to the values requested");
  for (const std::uint32_t depth : {1U, 3U, 17U, 100U}) {
    ibv_qp_cap cap{depth, depth + 1, 1, 2, 10};
    const ibv_qp_cap asked = cap;
    ASSERT_EQ(make(cap), 0);
    EXPECT_GE(cap.max_send_wr, asked.max_send_wr);
    EXPECT_GE(cap.max_recv_wr, asked.max_recv_wr);
    EXPECT_GE(cap.max_send_sge, asked.max_send_sge);
    EXPECT_GE(cap.max_recv_sge, asked.max_recv_sge);
    EXPECT_GE(cap.max_inline_data, asked.max_inline_data);
  }
}

TEST_F(Limits, QueryGivesTheGrantedCapabilities) {
  source("man ibv_query_qp: init_attr; man ibv_create_qp: qp_init_attr->cap");
  ibv_qp_init_attr initial{};
  initial.send_cq = cq.get();
  initial.recv_cq = cq.get();
  initial.cap = {5, 6, 2, 3, 20};
  initial.qp_type = IBV_QPT_RC;
  initial.sq_sig_all = 1;
  const Qp qp(need(ibv_create_qp(nic.pd(), &initial), "ibv_create_qp"));
  ibv_qp_attr attributes{};
  ibv_qp_init_attr queried{};
  ASSERT_EQ(ibv_query_qp(qp.get(), &attributes, IBV_QP_CAP, &queried), 0);
  EXPECT_GE(queried.cap.max_send_wr, 5U);
  EXPECT_GE(queried.cap.max_recv_wr, 6U);
  EXPECT_GE(queried.cap.max_send_sge, 2U);
  EXPECT_GE(queried.cap.max_recv_sge, 3U);
  EXPECT_GE(queried.cap.max_inline_data, 20U);
  EXPECT_EQ(queried.sq_sig_all, 1);
  EXPECT_EQ(queried.qp_type, IBV_QPT_RC);
  EXPECT_EQ(queried.send_cq, cq.get());
  EXPECT_EQ(queried.recv_cq, cq.get());
}

TEST_F(Limits, QpOfAnUnknownTypeIsRefused) {
  source("man ibv_create_qp: qp_type; Linux rxe_qp_chk_init: EOPNOTSUPP, mlx5: EINVAL");
  ibv_qp_cap cap{1, 1, 1, 1, 0};
  const int error = make(cap, static_cast<ibv_qp_type>(77));
  EXPECT_TRUE(error == EINVAL || error == EOPNOTSUPP) << errno_name(error);
}

TEST_F(Limits, QpDoesNotTakeUnknownSendOperations) {
  source("man ibv_wr_post: if the QP does not support all requested types, creation fails");
  ibv_qp_init_attr_ex extended{};
  extended.qp_type = IBV_QPT_RC;
  extended.cap = {1, 1, 1, 1, 0};
  extended.send_cq = cq.get();
  extended.recv_cq = cq.get();
  extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  extended.pd = nic.pd();
  extended.send_ops_flags = IBV_QP_EX_WITH_SEND | (1ULL << 60U);
  const Qp qp(ibv_create_qp_ex(nic.context(), &extended));
  EXPECT_FALSE(qp);
  if (!qp) {
    EXPECT_TRUE(errno == EOPNOTSUPP || errno == EINVAL) << errno_name(errno);
  }
}

TEST_F(Limits, CqLength) {
  const int most = nic.limits().max_cqe;
  const Cq largest(ibv_create_cq(nic.context(), most, nullptr, nullptr, 0));
  ASSERT_TRUE(largest) << "the limit, " << most << ": " << errno_name(errno);
  EXPECT_GE(largest->cqe, most);
  const Cq beyond(ibv_create_cq(nic.context(), most + 1, nullptr, nullptr, 0));
  EXPECT_FALSE(beyond) << "one more than max_cqe";
  if (!beyond) {
    EXPECT_TRUE(is_a_refusal(errno)) << errno_name(errno);
  }
}

TEST_F(Limits, CqOfNoLengthIsRefused) {
  source("man ibv_create_cq; Linux mlx5, rxe_cq_chk_attr: cqe <= 0 is EINVAL");
  for (const int length : {0, -1}) {
    const Cq none(ibv_create_cq(nic.context(), length, nullptr, nullptr, 0));
    EXPECT_FALSE(none) << "length " << length;
    if (!none) {
      EXPECT_TRUE(is_a_refusal(errno)) << errno_name(errno);
    }
  }
}

TEST_F(Limits, CqIsAsLongAsAsked) {
  source("man ibv_create_cq: may create a CQ with size greater than or equal to the requested");
  for (const int length : {1, 2, 63, 64, 65, 1000}) {
    const Cq made = nic.make_cq(length);
    EXPECT_GE(made->cqe, length);
  }
}

TEST_F(Limits, CompletionVectorMustExist) {
  source("man ibv_create_cq: comp_vector must be at least zero and less than num_comp_vectors");
  const int count = nic.context()->num_comp_vectors;
  ASSERT_GE(count, 1);
  for (int vector = 0; vector < std::min(count, 8); ++vector) {
    const Cq made(ibv_create_cq(nic.context(), 4, nullptr, nullptr, vector));
    EXPECT_TRUE(made) << "vector " << vector << " of " << count;
  }
  const Cq beyond(ibv_create_cq(nic.context(), 4, nullptr, nullptr, count));
  EXPECT_FALSE(beyond) << "vector " << count << " of " << count;
}

class SrqLimits : public Limits {
 protected:
  int make_srq(ibv_srq_attr& attributes) {
    ibv_srq_init_attr initial{};
    initial.attr = attributes;
    const Srq srq(ibv_create_srq(nic.pd(), &initial));
    const int error = srq ? 0 : errno;
    attributes = initial.attr;
    return error;
  }
};

TEST_F(SrqLimits, Length) {
  HBMWIRE_NEED(nic.lacks_srq());
  const auto most = static_cast<std::uint32_t>(nic.limits().max_srq_wr);
  ibv_srq_attr attributes{most, 1, 0};
  EXPECT_EQ(make_srq(attributes), 0);
  EXPECT_GE(attributes.max_wr, most);
  attributes = {most + 1, 1, 0};
  const int error = make_srq(attributes);
  EXPECT_TRUE(is_a_refusal(error)) << errno_name(error);
}

TEST_F(SrqLimits, Elements) {
  HBMWIRE_NEED(nic.lacks_srq());
  const auto most = static_cast<std::uint32_t>(nic.limits().max_srq_sge);
  ibv_srq_attr attributes{1, most, 0};
  EXPECT_EQ(make_srq(attributes), 0);
  EXPECT_GE(attributes.max_sge, most);
  attributes = {1, most + 1, 0};
  const int error = make_srq(attributes);
  EXPECT_TRUE(is_a_refusal(error)) << errno_name(error);
}

TEST_F(SrqLimits, GrantedIsNotLessThanAsked) {
  source("man ibv_create_srq: max_wr and max_sge will be greater than or equal to the requested");
  HBMWIRE_NEED(nic.lacks_srq());
  for (const std::uint32_t length : {1U, 5U, 100U}) {
    ibv_srq_attr attributes{length, 2, 0};
    ASSERT_EQ(make_srq(attributes), 0);
    EXPECT_GE(attributes.max_wr, length);
    EXPECT_GE(attributes.max_sge, 2U);
  }
}

}  // namespace
}  // namespace hbmwire::conformance
