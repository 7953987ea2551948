// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>

#include "emulation/tests/conformance/side.hpp"
#include "emulation/tests/conformance/state_table.hpp"

/// The states of a queue pair: every transition, and every attribute of it.
namespace hbmwire::conformance {
namespace {

/// A QP of a type in a state, with another QP of its kind as its peer.
class QpInState {
 public:
  QpInState(const Nic& nic, ibv_qp_type type, ibv_qp_state state)
      : side(nic, {.type = type, .bytes = 64}) {
    peer.qpn = side.qp->qp_num;  // itself, because the peer is not used
    reached = bring(state);
  }

  /// Makes the transition with IBV_QP_STATE and the attributes in `mask`, which have valid values.
  int move(ibv_qp_state to, int mask) {
    ibv_qp_attr values = side.attributes(peer);
    values.qp_state = to;
    values.cur_qp_state = side.state();
    return side.modify(values, mask | IBV_QP_STATE);
  }

  Side side;
  Address peer;
  bool reached = false;

 private:
  bool bring(ibv_qp_state state) {
    if (state == IBV_QPS_RESET) return true;
    if (side.to_init() != 0) return false;
    if (state == IBV_QPS_INIT) return true;
    if (state == IBV_QPS_ERR) return side.to(IBV_QPS_ERR) == 0;
    if (side.to_rtr(peer) != 0) return false;
    if (state == IBV_QPS_RTR) return true;
    if (side.to_rts() != 0) return false;
    if (state == IBV_QPS_RTS) return true;
    return side.to(IBV_QPS_SQD) == 0 && wait_until([&] { return side.query().sq_draining == 0; });
  }
};

std::string unreachable(const Move& move) {
  if (move.from == IBV_QPS_SQD)
    return std::string("the device takes no ") + name_of(move.type) + " QP to SQD";
  ADD_FAILURE() << "the QP can't be brought to " << name_of(move.from);
  return "see above";
}

struct Start {
  ibv_qp_type type;
  ibv_qp_state state;
};

std::ostream& operator<<(std::ostream& out, const Start& start) {
  return out << name_of(start.type) << " in " << name_of(start.state);
}

std::vector<Start> all_starts() {
  std::vector<Start> starts;
  for (const ibv_qp_type type : kQpTypes)
    for (const ibv_qp_state state : kReachableStates) starts.push_back({type, state});
  return starts;
}

class QpStates : public ConformanceOf<Start> {};

TEST_P(QpStates, MoveOnlyWhereTheTableSays) {
  source(kStateSource);
  const auto [type, from] = GetParam();
  HBMWIRE_NEED(nic.lacks(type));
  for (const ibv_qp_state to : kStates) {
    const Move move{type, from, to};
    SCOPED_TRACE(testing::Message() << move);
    QpInState qp(nic, type, from);
    if (!qp.reached) GTEST_SKIP() << unreachable(move);
    ASSERT_EQ(qp.side.state(), from);
    const int error = qp.move(to, attributes_of(move).required);
    EXPECT_EQ(error, is_allowed(move) ? 0 : EINVAL) << errno_name(error);
    EXPECT_EQ(qp.side.state(), is_allowed(move) ? to : from);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QpStates, testing::ValuesIn(all_starts()), [](const auto& row) {
  return std::string(name_of(row.param.type)) + "_" + name_of(row.param.state);
});

class QpMove : public ConformanceOf<Move> {
 protected:
  /// Calls `check` with each attribute of `mask`.
  template <typename Check>
  void for_each_attribute(int mask, Check check) {
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
      if ((mask & bit) == 0) continue;
      SCOPED_TRACE(std::string("attribute IBV_QP_") + attribute_name(bit));
      check(bit);
    }
  }
};

class QpMoveRequires : public QpMove {};

TEST_P(QpMoveRequires, EachOfItsAttributes) {
  source(kStateSource);
  const Move move = GetParam();
  HBMWIRE_NEED(nic.lacks(move.type));
  const int required = attributes_of(move).required;
  QpInState qp(nic, move.type, move.from);
  ASSERT_TRUE(qp.reached);
  for_each_attribute(required, [&](int bit) {
    EXPECT_EQ(qp.move(move.to, required & ~bit), EINVAL) << "it may not be left out";
    EXPECT_EQ(qp.side.state(), move.from) << "a refused call changes nothing";
  });
  EXPECT_EQ(qp.move(move.to, required), 0);
}

std::vector<Move> moves_that_require() {
  std::vector<Move> moves;
  for (const Move& move : allowed_moves())
    if (attributes_of(move).required != 0) moves.push_back(move);
  return moves;
}

INSTANTIATE_TEST_SUITE_P(All, QpMoveRequires, testing::ValuesIn(moves_that_require()), case_name);

class QpMoveRefuses : public QpMove {};

TEST_P(QpMoveRefuses, EveryForeignAttribute) {
  source(kStateSource);
  const Move move = GetParam();
  HBMWIRE_NEED(nic.lacks(move.type));
  QpInState qp(nic, move.type, move.from);
  if (!qp.reached) GTEST_SKIP() << unreachable(move);
  const auto [required, optional] = attributes_of(move);
  const int foreign = ~(required | optional | unsettled_attributes(move) | IBV_QP_STATE);
  for_each_attribute(foreign, [&](int bit) {
    EXPECT_EQ(qp.move(move.to, required | bit), EINVAL) << "it has no place in this move";
    EXPECT_EQ(qp.side.state(), move.from) << "a refused call changes nothing";
  });
}

std::vector<Move> moves_between_working_states() {
  std::vector<Move> moves;
  for (const Move& move : allowed_moves())
    if (move.to != IBV_QPS_RESET && move.to != IBV_QPS_ERR) moves.push_back(move);
  return moves;
}

INSTANTIATE_TEST_SUITE_P(All, QpMoveRefuses, testing::ValuesIn(moves_between_working_states()),
                         case_name);

class QpMoveToResetOrError : public QpMove {};

TEST_P(QpMoveToResetOrError, RefusesEveryAttribute) {
  source(kStateSource);
  HBMWIRE_NEED(nic.lacks(GetParam().type));
  for (const ibv_qp_state from : kReachableStates) {
    const Move move{GetParam().type, from, GetParam().to};
    if (!is_allowed(move)) continue;
    SCOPED_TRACE(testing::Message() << move);
    QpInState qp(nic, move.type, move.from);
    if (!qp.reached) GTEST_SKIP() << unreachable(move);
    for_each_attribute(~(IBV_QP_STATE | unsettled_attributes(move)), [&](int bit) {
      EXPECT_EQ(qp.move(move.to, bit), EINVAL) << "it has no place in this move";
    });
    EXPECT_EQ(qp.side.state(), move.from) << "a refused call changes nothing";
  }
}

std::vector<Move> moves_to_reset_or_error() {
  std::vector<Move> moves;
  for (const ibv_qp_type type : kQpTypes)
    for (const ibv_qp_state to : {IBV_QPS_RESET, IBV_QPS_ERR})
      moves.push_back({type, IBV_QPS_RTS, to});
  return moves;
}

INSTANTIATE_TEST_SUITE_P(All, QpMoveToResetOrError, testing::ValuesIn(moves_to_reset_or_error()),
                         case_name);

class QpMoveTakes : public QpMove {};

TEST_P(QpMoveTakes, EachOptionalAttribute) {
  source(kStateSource);
  const Move move = GetParam();
  HBMWIRE_NEED(nic.lacks(move.type));
  const auto [required, optional] = attributes_of(move);
  for_each_attribute(optional & ~unsettled_attributes(move), [&](int bit) {
    QpInState qp(nic, move.type, move.from);
    if (!qp.reached) GTEST_SKIP() << unreachable(move);
    EXPECT_EQ(qp.move(move.to, required | bit), 0);
    EXPECT_EQ(qp.side.state(), move.to);
  });
}

std::vector<Move> moves_with_options() {
  std::vector<Move> moves;
  for (const Move& move : allowed_moves())
    if ((attributes_of(move).optional & ~unsettled_attributes(move)) != 0) moves.push_back(move);
  return moves;
}

INSTANTIATE_TEST_SUITE_P(All, QpMoveTakes, testing::ValuesIn(moves_with_options()), case_name);

}  // namespace
}  // namespace hbmwire::conformance
