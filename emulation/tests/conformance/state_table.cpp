// SPDX-License-Identifier: MIT
#include "emulation/tests/conformance/state_table.hpp"

#include <ostream>

namespace hbmwire::conformance {
namespace {

bool is_one_of(ibv_qp_type type, std::initializer_list<ibv_qp_type> types) {
  for (const ibv_qp_type candidate : types)
    if (candidate == type) return true;
  return false;
}

bool keeps_retry_state(ibv_qp_type type) { return is_one_of(type, {IBV_QPT_RC, IBV_QPT_XRC_SEND}); }

bool answers_requests(ibv_qp_type type) { return is_one_of(type, {IBV_QPT_RC, IBV_QPT_XRC_RECV}); }

/// The attributes that RESET to INIT requires and INIT to INIT allows.
int attributes_of_init(ibv_qp_type type) {
  return IBV_QP_PKEY_INDEX | IBV_QP_PORT | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

Attributes attributes_to_rtr(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
  int required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (answers_requests(type)) required |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return {required, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX};
}

int required_to_rts(ibv_qp_type type) {
  int required = IBV_QP_SQ_PSN;
  if (keeps_retry_state(type))
    required |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (type == IBV_QPT_XRC_RECV) required |= IBV_QP_TIMEOUT;
  return required;
}

/// Optional attributes of transitions to RTS, from any state.
int optional_to_rts(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return IBV_QP_CUR_STATE | IBV_QP_QKEY;
  return IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE |
         (answers_requests(type) ? IBV_QP_MIN_RNR_TIMER : 0);
}

int optional_while_drained(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
  int optional =
      IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE;
  if (type != IBV_QPT_UC) optional |= IBV_QP_PORT | IBV_QP_TIMEOUT;
  if (keeps_retry_state(type))
    optional |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (answers_requests(type)) optional |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return optional;
}

}  // namespace

bool is_allowed(const Move& move) {
  switch (move.to) {
    case IBV_QPS_RESET:
      return true;
    case IBV_QPS_ERR:
      return move.from != IBV_QPS_RESET;
    case IBV_QPS_INIT:
      return move.from == IBV_QPS_RESET || move.from == IBV_QPS_INIT;
    case IBV_QPS_RTR:
      return move.from == IBV_QPS_INIT;
    case IBV_QPS_RTS:
      return move.from == IBV_QPS_RTR || move.from == IBV_QPS_RTS || move.from == IBV_QPS_SQD ||
             (move.from == IBV_QPS_SQE && is_one_of(move.type, {IBV_QPT_UC, IBV_QPT_UD}));
    case IBV_QPS_SQD:
      return move.from == IBV_QPS_RTS || move.from == IBV_QPS_SQD;
    default:
      return false;
  }
}

Attributes attributes_of(const Move& move) {
  switch (move.to) {
    case IBV_QPS_INIT:
      if (move.from == IBV_QPS_RESET) return {attributes_of_init(move.type), 0};
      return {0, attributes_of_init(move.type)};
    case IBV_QPS_RTR:
      return attributes_to_rtr(move.type);
    case IBV_QPS_RTS:
      return {move.from == IBV_QPS_RTR ? required_to_rts(move.type) : 0,
              optional_to_rts(move.type)};
    case IBV_QPS_SQD:
      if (move.from == IBV_QPS_RTS) return {0, IBV_QP_EN_SQD_ASYNC_NOTIFY};
      return {0, optional_while_drained(move.type)};
    default:
      return {};
  }
}

int unsettled_attributes(const Move& move) {
  // Alternate paths exist only on devices that report IBV_DEVICE_AUTO_PATH_MIG, and not with RoCE.
  int unsettled = attributes_of(move).optional & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
  // Before its other checks the kernel removes attributes that have no meaning for one end of an
  // XRC connection (uverbs_cmd.c, modify_qp_mask).
  if (move.type == IBV_QPT_XRC_SEND) unsettled |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (move.type == IBV_QPT_XRC_RECV)
    unsettled |= IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  // In a move from SQD to SQD the kernel adds IBV_QP_PORT to IBV_QP_AV (uverbs_cmd.c, modify_qp),
  // and its own table then refuses the port for UC. The specification allows the address alone.
  if (move.type == IBV_QPT_UC && move.from == IBV_QPS_SQD && move.to == IBV_QPS_SQD)
    unsettled |= IBV_QP_AV;
  return unsettled;
}

std::vector<Move> allowed_moves() {
  std::vector<Move> moves;
  for (const ibv_qp_type type : kQpTypes)
    for (const ibv_qp_state from : kReachableStates)
      for (const ibv_qp_state to : kStates)
        if (is_allowed({type, from, to})) moves.push_back({type, from, to});
  return moves;
}

const char* attribute_name(int bit) {
  static constexpr const char* kNames[] = {"STATE",
                                           "CUR_STATE",
                                           "EN_SQD_ASYNC_NOTIFY",
                                           "ACCESS_FLAGS",
                                           "PKEY_INDEX",
                                           "PORT",
                                           "QKEY",
                                           "AV",
                                           "PATH_MTU",
                                           "TIMEOUT",
                                           "RETRY_CNT",
                                           "RNR_RETRY",
                                           "RQ_PSN",
                                           "MAX_QP_RD_ATOMIC",
                                           "ALT_PATH",
                                           "MIN_RNR_TIMER",
                                           "SQ_PSN",
                                           "MAX_DEST_RD_ATOMIC",
                                           "PATH_MIG_STATE",
                                           "CAP",
                                           "DEST_QPN"};
  int index = 0;
  while (bit > 1) {
    bit >>= 1;
    ++index;
  }
  return index < static_cast<int>(std::size(kNames)) ? kNames[index] : "RATE_LIMIT";
}

std::string case_name(const testing::TestParamInfo<Move>& info) {
  return std::string(name_of(info.param.type)) + "_" + name_of(info.param.from) + "_to_" +
         name_of(info.param.to);
}

std::ostream& operator<<(std::ostream& out, const Move& move) {
  return out << name_of(move.type) << " from " << name_of(move.from) << " to " << name_of(move.to);
}

}  // namespace hbmwire::conformance
