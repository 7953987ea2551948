// SPDX-License-Identifier: MIT
#include "emulation/nic/verbs/qp_transitions.hpp"

#include <algorithm>
#include <array>

namespace hbmwire::emulation::nic {
namespace {

/// Types of queue pairs as bits, so that one row can cover several.
enum Kinds : unsigned { kUc = 1, kUd = 2, kRc = 4, kXrcSend = 8, kXrcRecv = 16 };

constexpr unsigned kRequesters = kRc | kXrcSend;  // the sending sides of acknowledged transports
constexpr unsigned kResponders = kRc | kXrcRecv;
constexpr unsigned kConnected = kUc | kRc | kXrcSend | kXrcRecv;
constexpr unsigned kAll = kConnected | kUd;

unsigned kind_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_UC:
      return kUc;
    case IBV_QPT_UD:
      return kUd;
    case IBV_QPT_RC:
      return kRc;
    case IBV_QPT_XRC_SEND:
      return kXrcSend;
    case IBV_QPT_XRC_RECV:
      return kXrcRecv;
    default:
      return 0;
  }
}

/// Attributes of a transition for some types of queue pairs. All rows that match are combined.
struct Row {
  ibv_qp_state from;
  ibv_qp_state to;
  unsigned kinds;
  int required;
  int optional;
};

constexpr int kPath = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kMigration = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

/// Sources: man ibv_modify_qp, "the required attributes"; IBTA vol. 1, table "QP state transition
/// properties"; Linux (drivers/infiniband/core/verbs.c, qp_state_table).
constexpr std::array kRows{
    Row{IBV_QPS_RESET, IBV_QPS_INIT, kAll, IBV_QP_PKEY_INDEX | IBV_QP_PORT, 0},
    Row{IBV_QPS_RESET, IBV_QPS_INIT, kConnected, IBV_QP_ACCESS_FLAGS, 0},
    Row{IBV_QPS_RESET, IBV_QPS_INIT, kUd, IBV_QP_QKEY, 0},

    Row{IBV_QPS_INIT, IBV_QPS_INIT, kAll, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT},
    Row{IBV_QPS_INIT, IBV_QPS_INIT, kConnected, 0, IBV_QP_ACCESS_FLAGS},
    Row{IBV_QPS_INIT, IBV_QPS_INIT, kUd, 0, IBV_QP_QKEY},

    Row{IBV_QPS_INIT, IBV_QPS_RTR, kAll, 0, IBV_QP_PKEY_INDEX},
    Row{IBV_QPS_INIT, IBV_QPS_RTR, kConnected, kPath, IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH},
    Row{IBV_QPS_INIT, IBV_QPS_RTR, kResponders, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        0},
    Row{IBV_QPS_INIT, IBV_QPS_RTR, kUd, 0, IBV_QP_QKEY},

    Row{IBV_QPS_RTR, IBV_QPS_RTS, kAll, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE},
    Row{IBV_QPS_RTR, IBV_QPS_RTS, kConnected, 0, IBV_QP_ACCESS_FLAGS | kMigration},
    Row{IBV_QPS_RTR, IBV_QPS_RTS, kRequesters,
        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC, 0},
    Row{IBV_QPS_RTR, IBV_QPS_RTS, kXrcRecv, IBV_QP_TIMEOUT, 0},
    Row{IBV_QPS_RTR, IBV_QPS_RTS, kResponders, 0, IBV_QP_MIN_RNR_TIMER},
    Row{IBV_QPS_RTR, IBV_QPS_RTS, kUd, 0, IBV_QP_QKEY},

    Row{IBV_QPS_RTS, IBV_QPS_RTS, kAll, 0, IBV_QP_CUR_STATE},
    Row{IBV_QPS_RTS, IBV_QPS_RTS, kConnected, 0, IBV_QP_ACCESS_FLAGS | kMigration},
    Row{IBV_QPS_RTS, IBV_QPS_RTS, kResponders, 0, IBV_QP_MIN_RNR_TIMER},
    Row{IBV_QPS_RTS, IBV_QPS_RTS, kUd, 0, IBV_QP_QKEY},

    Row{IBV_QPS_RTS, IBV_QPS_SQD, kAll, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},

    Row{IBV_QPS_SQD, IBV_QPS_RTS, kAll, 0, IBV_QP_CUR_STATE},
    Row{IBV_QPS_SQD, IBV_QPS_RTS, kConnected, 0, IBV_QP_ACCESS_FLAGS | kMigration},
    Row{IBV_QPS_SQD, IBV_QPS_RTS, kResponders, 0, IBV_QP_MIN_RNR_TIMER},
    Row{IBV_QPS_SQD, IBV_QPS_RTS, kUd, 0, IBV_QP_QKEY},

    Row{IBV_QPS_SQD, IBV_QPS_SQD, kAll, 0, IBV_QP_PKEY_INDEX},
    Row{IBV_QPS_SQD, IBV_QPS_SQD, kConnected, 0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | kMigration},
    Row{IBV_QPS_SQD, IBV_QPS_SQD, kRequesters | kResponders, 0, IBV_QP_PORT | IBV_QP_TIMEOUT},
    Row{IBV_QPS_SQD, IBV_QPS_SQD, kRequesters, 0,
        IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC},
    Row{IBV_QPS_SQD, IBV_QPS_SQD, kResponders, 0, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
    Row{IBV_QPS_SQD, IBV_QPS_SQD, kUd, 0, IBV_QP_QKEY},

    Row{IBV_QPS_SQE, IBV_QPS_RTS, kUc | kUd, 0, IBV_QP_CUR_STATE},
    Row{IBV_QPS_SQE, IBV_QPS_RTS, kUc, 0, IBV_QP_ACCESS_FLAGS},
    Row{IBV_QPS_SQE, IBV_QPS_RTS, kUd, 0, IBV_QP_QKEY},
};

}  // namespace

bool is_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
  const int given = mask & ~IBV_QP_STATE;
  // Allowed from any state, without attributes. But a QP in RESET cannot go to ERR.
  if (to == IBV_QPS_RESET) return given == 0;
  if (to == IBV_QPS_ERR) return given == 0 && from != IBV_QPS_RESET;
  bool exists = false;
  int required = 0;
  int optional = 0;
  for (const Row& row : kRows) {
    if (row.from != from || row.to != to || (row.kinds & kind_of(type)) == 0) continue;
    exists = true;
    required |= row.required;
    optional |= row.optional;
  }
  return exists && (required & ~given) == 0 && (given & ~(required | optional)) == 0;
}

}  // namespace hbmwire::emulation::nic
