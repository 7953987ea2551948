// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>

#include "emulation/nic/state/nic_room.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

struct QpRequest {
  std::uint32_t type = 0;
  std::uint64_t pd = 0;
  std::uint32_t send_cq = 0;
  std::uint32_t recv_cq = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t receive_sge = 0;
  std::uint32_t srq = 0;   // index, 0: its own receive queue
  std::uint64_t xrcd = 0;  // XRC_RECV
  EventSource events{};
  bool scatters = false;
  NicRoom room;
};

/// Whether a QP takes packets in the state that it is in.
inline bool receives(const QpRecord& qp) {
  const std::uint32_t state = qp.state.load();
  return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
         state == IBV_QPS_SQE;
}

/// Whether packets to there come to the port that the QP is on, and are taken: its LID leads them,
/// and a GRH must name one of its GIDs (IBTA vol. 1, 9.6.1.2).
inline bool is_at(const SharedState& shared, const QpRecord& qp, const Destination& there) {
  if (qp.lid != there.lid) return false;
  if (!there.global) return true;
  const auto wanted = std::bit_cast<SharedGid::Halves>(there.gid);
  for (const SharedGid& own : shared.ports[qp.port].gids)
    if (own.halves() == wanted) return true;
  return false;
}

/// Index of a new QP in RESET, or 0 with errno.
std::uint32_t claim_qp(Process& process, const QpRequest& request);

/// Makes the number invalid: when it returns nobody is at work in the QP, and nobody will be.
/// False: a process that was stopped is at work in it, and nothing has changed.
[[nodiscard]] bool stop_qp(Process& process, std::uint32_t index);

/// Gives the stopped QP's record and ring back.
void release_qp(Process& process, std::uint32_t index);

}  // namespace hbmwire::emulation::nic
