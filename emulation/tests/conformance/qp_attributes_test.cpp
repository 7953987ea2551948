// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "emulation/tests/conformance/side.hpp"
#include "emulation/tests/conformance/state_table.hpp"

/// Values of a queue pair's attributes: those that are accepted, and those that ibv_query_qp
/// returns.
namespace hbmwire::conformance {
namespace {

class QpAttributes : public Conformance {
 protected:
  /// Moves from INIT to RTR with one value changed.
  template <typename Change>
  int rtr_with(Change change) {
    Side side(nic, {.bytes = 64});
    EXPECT_EQ(side.to_init(), 0);
    ibv_qp_attr values = side.attributes(side.address());
    values.qp_state = IBV_QPS_RTR;
    change(values);
    const int error =
        side.modify(values, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    EXPECT_EQ(side.state(), error == 0 ? IBV_QPS_RTR : IBV_QPS_INIT);
    return error;
  }

  /// Moves from RTR to RTS with one value changed.
  template <typename Change>
  int rts_with(Change change) {
    Side side(nic, {.bytes = 64});
    EXPECT_EQ(side.to_init(), 0);
    EXPECT_EQ(side.to_rtr(side.address()), 0);
    ibv_qp_attr values = side.attributes(side.address());
    values.qp_state = IBV_QPS_RTS;
    change(values);
    const int error =
        side.modify(values, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    EXPECT_EQ(side.state(), error == 0 ? IBV_QPS_RTS : IBV_QPS_RTR);
    return error;
  }
};

TEST_F(QpAttributes, PortMustExist) {
  source("Linux drivers/infiniband/core/uverbs_cmd.c, modify_qp: rdma_is_port_valid");
  for (const unsigned port : {0U, nic.limits().phys_port_cnt + 1U}) {
    Side side(nic, {.bytes = 64});
    ibv_qp_attr values = side.attributes({});
    values.qp_state = IBV_QPS_INIT;
    values.port_num = static_cast<std::uint8_t>(port);
    EXPECT_EQ(
        side.modify(values, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        EINVAL)
        << "port " << port;
  }
}

TEST_F(QpAttributes, PkeyIndexMustExist) {
  source("IBTA vol. 1, chapter 11, Modify Queue Pair: invalid P_Key index; Linux mlx5 qp.c");
  Side side(nic, {.bytes = 64});
  ibv_qp_attr values = side.attributes({});
  values.qp_state = IBV_QPS_INIT;
  values.pkey_index = nic.port().pkey_tbl_len;
  EXPECT_EQ(
      side.modify(values, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      EINVAL);
}

TEST_F(QpAttributes, PathMtuMustBeOneOfTheFive) {
  source("IBTA vol. 1, chapter 11, Modify Queue Pair: path MTU is 256 to 4096; Linux mlx5 qp.c");
  for (const int mtu : {0, 6, 255}) {
    EXPECT_EQ(rtr_with([&](ibv_qp_attr& v) { v.path_mtu = static_cast<ibv_mtu>(mtu); }), EINVAL)
        << "MTU code " << mtu;
  }
}

TEST_F(QpAttributes, EveryMtuUpToThePortsIsTaken) {
  source("man ibv_modify_qp: path_mtu; IBTA vol. 1, chapter 11, Modify Queue Pair");
  for (int mtu = IBV_MTU_256; mtu <= nic.port().active_mtu; ++mtu) {
    EXPECT_EQ(rtr_with([&](ibv_qp_attr& v) { v.path_mtu = static_cast<ibv_mtu>(mtu); }), 0)
        << "MTU code " << mtu;
  }
}

TEST_F(QpAttributes, AddressNeedsTheQpsPort) {
  source("Linux drivers/infiniband/core/uverbs_cmd.c, modify_qp: the port of the primary AV");
  for (const unsigned port : {0U, nic.limits().phys_port_cnt + 1U}) {
    EXPECT_EQ(
        rtr_with([&](ibv_qp_attr& v) { v.ah_attr.port_num = static_cast<std::uint8_t>(port); }),
        EINVAL);
  }
}

TEST_F(QpAttributes, AddressNeedsAGrhOnEthernet) {
  source("man ibv_modify_qp: GRH; Linux drivers/infiniband/core/verbs.c, rdma_check_ah_attr");
  if (!nic.is_ethernet()) GTEST_SKIP() << "the port is no Ethernet port";
  EXPECT_EQ(rtr_with([](ibv_qp_attr& v) { v.ah_attr.is_global = 0; }), EINVAL);
}

TEST_F(QpAttributes, AddressNeedsAnEntryOfTheGidTable) {
  source("Linux drivers/infiniband/core/cache.c, rdma_get_gid_attr: index beyond the table");
  if (nic.port().gid_tbl_len > 255) GTEST_SKIP() << "the GID table has every index there is";
  const auto beyond = static_cast<std::uint8_t>(nic.port().gid_tbl_len);
  EXPECT_EQ(rtr_with([&](ibv_qp_attr& v) {
              v.ah_attr.is_global = 1;
              v.ah_attr.grh.sgid_index = beyond;
            }),
            EINVAL);
}

TEST_F(QpAttributes, TimeoutHasFiveBits) {
  source("IBTA vol. 1, Local ACK Timeout: 5 bits; Linux rxe_qp.c, rxe_qp_chk_attr");
  EXPECT_EQ(rts_with([](ibv_qp_attr& v) { v.timeout = 31; }), 0);
  EXPECT_EQ(rts_with([](ibv_qp_attr& v) { v.timeout = 32; }), EINVAL);
}

TEST_F(QpAttributes, ReadsInFlightAreLimitedByTheDevice) {
  source("man ibv_query_device: max_qp_init_rd_atom; Linux mlx5 qp.c, rxe_qp_chk_attr");
  const int most = nic.limits().max_qp_init_rd_atom;
  EXPECT_EQ(rts_with([&](ibv_qp_attr& v) { v.max_rd_atomic = static_cast<std::uint8_t>(most); }),
            0);
  const int beyond = std::max(most, nic.limits().max_qp_rd_atom) + 1;
  if (beyond > 255) GTEST_SKIP() << "the device takes every number there is";
  EXPECT_EQ(rts_with([&](ibv_qp_attr& v) { v.max_rd_atomic = static_cast<std::uint8_t>(beyond); }),
            EINVAL);
}

TEST_F(QpAttributes, ReadsAnsweredAreLimitedByTheDevice) {
  source("man ibv_query_device: max_qp_rd_atom; Linux mlx5 qp.c");
  const int most = nic.limits().max_qp_rd_atom;
  EXPECT_EQ(
      rtr_with([&](ibv_qp_attr& v) { v.max_dest_rd_atomic = static_cast<std::uint8_t>(most); }), 0);
  if (most > 254) GTEST_SKIP() << "the device takes every number there is";
  EXPECT_EQ(
      rtr_with([&](ibv_qp_attr& v) { v.max_dest_rd_atomic = static_cast<std::uint8_t>(most + 1); }),
      EINVAL);
}

TEST_F(QpAttributes, ACurrentStateThatCannotBeAssumedIsRefused) {
  source("Linux drivers/infiniband/core/verbs.c, ib_modify_qp_is_ok: RTR, RTS, SQD and SQE only");
  for (const ibv_qp_state assumed : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR}) {
    Side side(nic, {.bytes = 64});
    side.connect(side.address());
    ibv_qp_attr values = side.attributes(side.address());
    values.qp_state = IBV_QPS_RTS;
    values.cur_qp_state = assumed;
    EXPECT_EQ(side.modify(values, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL) << name_of(assumed);
    EXPECT_EQ(side.state(), IBV_QPS_RTS);
  }
}

TEST_F(QpAttributes, AStateBeyondTheLastIsRefused) {
  source("Linux drivers/infiniband/core/uverbs_cmd.c, modify_qp: qp_state > IB_QPS_ERR");
  Side side(nic, {.bytes = 64});
  EXPECT_EQ(side.to(static_cast<ibv_qp_state>(IBV_QPS_ERR + 1)), EINVAL);
}

TEST_F(QpAttributes, WithoutAStateTheQpStaysWhereItIs) {
  source("man ibv_modify_qp: IBV_QP_STATE; Linux drivers/infiniband/core/verbs.c, qp_state_table");
  Side side(nic, {.bytes = 64});
  side.connect(side.address());
  ibv_qp_attr values = side.attributes(side.address());
  values.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  EXPECT_EQ(side.modify(values, IBV_QP_ACCESS_FLAGS), 0);
  EXPECT_EQ(side.query().qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(side.state(), IBV_QPS_RTS);
}

TEST_F(QpAttributes, CapabilitiesAreNoAttributeOfAMove) {
  source("man ibv_modify_qp: not all devices resize QPs; Linux qp_state_table has no IB_QP_CAP");
  Side side(nic, {.bytes = 64});
  side.connect(side.address());
  ibv_qp_attr values = side.attributes(side.address());
  values.qp_state = IBV_QPS_RTS;
  values.cap = {8, 8, 1, 1, 0};
  EXPECT_EQ(side.modify(values, IBV_QP_STATE | IBV_QP_CAP), EINVAL);
}

class QpAttributesOf : public ConformanceOf<ibv_qp_type> {};

TEST_P(QpAttributesOf, AreGivenBackAsSet) {
  source("man ibv_query_qp: values are valid if they have been set using ibv_modify_qp");
  const ibv_qp_type type = GetParam();
  HBMWIRE_NEED(nic.lacks(type));
  Side side(nic, {.type = type, .bytes = 64});
  const Address peer{.qpn = side.qp->qp_num};
  const ibv_qp_attr set = side.attributes(peer);
  side.connect(peer);
  const ibv_qp_attr got = side.query();
  EXPECT_EQ(got.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(got.port_num, set.port_num);
  EXPECT_EQ(got.pkey_index, set.pkey_index);
  if (type != IBV_QPT_XRC_RECV) {
    EXPECT_EQ(got.sq_psn, set.sq_psn);
  }
  if (type == IBV_QPT_UD) {
    EXPECT_EQ(got.qkey, set.qkey);
    return;
  }
  EXPECT_EQ(got.qp_access_flags & kRemoteAccess, set.qp_access_flags);
  EXPECT_EQ(got.path_mtu, set.path_mtu);
  EXPECT_EQ(got.dest_qp_num, set.dest_qp_num);
  EXPECT_EQ(got.rq_psn, set.rq_psn);
  EXPECT_EQ(got.ah_attr.port_num, set.ah_attr.port_num);
  EXPECT_EQ(got.ah_attr.is_global, set.ah_attr.is_global);
  if (set.ah_attr.is_global != 0) {
    EXPECT_TRUE(std::equal(std::begin(got.ah_attr.grh.dgid.raw), std::end(got.ah_attr.grh.dgid.raw),
                           set.ah_attr.grh.dgid.raw));
    EXPECT_EQ(got.ah_attr.grh.sgid_index, set.ah_attr.grh.sgid_index);
    EXPECT_EQ(got.ah_attr.grh.hop_limit, set.ah_attr.grh.hop_limit);
  }
}

TEST_P(QpAttributesOf, StartInReset) {
  source("IBTA vol. 1, chapter 10, Queue Pair states: a QP is created in the Reset state");
  HBMWIRE_NEED(nic.lacks(GetParam()));
  const Side side(nic, {.type = GetParam(), .bytes = 64});
  EXPECT_EQ(side.state(), IBV_QPS_RESET);
}

TEST_P(QpAttributesOf, CanBeSetAnewAfterAReset) {
  source("IBTA vol. 1, chapter 10, Queue Pair states: from any state to Reset, and on from there");
  HBMWIRE_NEED(nic.lacks(GetParam()));
  Side side(nic, {.type = GetParam(), .bytes = 64});
  const Address peer{.qpn = side.qp->qp_num};
  for (int round = 0; round < 3; ++round) {
    side.connect(peer);
    ASSERT_EQ(side.to(round == 1 ? IBV_QPS_ERR : IBV_QPS_RESET), 0);
    if (round == 1) {
      ASSERT_EQ(side.to(IBV_QPS_RESET), 0);
    }
    EXPECT_EQ(side.state(), IBV_QPS_RESET);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QpAttributesOf, testing::ValuesIn(kQpTypes),
                         [](const auto& row) { return std::string(name_of(row.param)); });

TEST_F(QpAttributes, RetriesAndTimersAreGivenBackAsSet) {
  source("man ibv_query_qp; man ibv_modify_qp: timeout, retry_cnt, rnr_retry, min_rnr_timer");
  Side side(nic, {.bytes = 64});
  const Timing timing{.timeout = 17, .retry_count = 5, .rnr_retry = 3, .min_rnr_timer = 12};
  side.connect(side.address(), timing);
  const ibv_qp_attr got = side.query();
  EXPECT_EQ(got.timeout, timing.timeout);
  EXPECT_EQ(got.retry_cnt, timing.retry_count);
  EXPECT_EQ(got.rnr_retry, timing.rnr_retry);
  EXPECT_EQ(got.min_rnr_timer, timing.min_rnr_timer);
  EXPECT_EQ(got.max_rd_atomic, 1);
  EXPECT_EQ(got.max_dest_rd_atomic, 1);
}

TEST_F(QpAttributes, SequenceNumbersHave24Bits) {
  source("Linux drivers/infiniband/core/verbs.c, _ib_modify_qp: PSNs are masked to 24 bits");
  Side side(nic, {.bytes = 64});
  ASSERT_EQ(side.to_init(), 0);
  ibv_qp_attr values = side.attributes(side.address());
  values.qp_state = IBV_QPS_RTR;
  values.rq_psn = 0xff123456;
  ASSERT_EQ(
      side.modify(values, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
      0);
  EXPECT_EQ(side.query().rq_psn, 0x123456U);
}

}  // namespace
}  // namespace hbmwire::conformance
