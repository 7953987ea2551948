// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "emulation/tests/conformance/conformance.hpp"

/// The rules of ibv_modify_qp as data: for each type of QP and each pair of states, whether the
/// transition exists, and which attributes it requires and allows.
namespace hbmwire::conformance {

inline constexpr const char* kStateSource =
    "man ibv_modify_qp; IBTA vol. 1, chapter 11, Modify Queue Pair, table of state transitions and "
    "attributes; Linux drivers/infiniband/core/verbs.c, qp_state_table";

struct Move {
  ibv_qp_type type;
  ibv_qp_state from;
  ibv_qp_state to;
};

struct Attributes {
  int required = 0;
  int optional = 0;
};

inline constexpr ibv_qp_type kQpTypes[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND,
                                           IBV_QPT_XRC_RECV};
/// The states that verbs can move a QP to.
inline constexpr ibv_qp_state kReachableStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                                    IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
inline constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                           IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

/// Whether the transition is in the table.
bool is_allowed(const Move& move);

/// The attributes of the transition besides IBV_QP_STATE.
Attributes attributes_of(const Move& move);

/// Attributes for which the sources have no rule that applies to every device. The suite accepts
/// both answers for them.
int unsettled_attributes(const Move& move);

/// All transitions in the table, for every type.
std::vector<Move> allowed_moves();

/// For example "IBV_QP_PATH_MTU".
const char* attribute_name(int bit);

/// For example "RC_INIT_to_RTR".
std::string case_name(const testing::TestParamInfo<Move>& info);

std::ostream& operator<<(std::ostream& out, const Move& move);

}  // namespace hbmwire::conformance
