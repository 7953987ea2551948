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

/// The properties of a QP to be made. CQs and the SRQ are given by index.
struct QpRequest {
  std::uint32_t type = 0;
  std::uint64_t pd = 0;
  std::uint32_t send_cq = 0;
  std::uint32_t recv_cq = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t receive_sge = 0;
  std::uint32_t srq = 0;   // index; 0: its own receive queue
  std::uint64_t xrcd = 0;  // for XRC_RECV
  EventSource events{};
  bool scatters = false;
  NicRoom room;
};

/// Whether a QP takes packets in its present state.
inline bool receives(const QpRecord& qp) {
  const std::uint32_t state = qp.state.load();
  return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
         state == IBV_QPS_SQE;
}

/// Whether packets to `there` reach the QP's port and are accepted. The LID routes them; a GRH must
/// name one of the port's GIDs (IBTA vol. 1, 9.6.1.2).
inline bool is_at(const SharedState& shared, const QpRecord& qp, const Destination& there) {
  if (qp.lid != there.lid) return false;
  if (!there.global) return true;
  const auto wanted = std::bit_cast<SharedGid::Halves>(there.gid);
  for (const SharedGid& own : shared.ports[qp.port].gids)
    if (own.halves() == wanted) return true;
  return false;
}

/// Makes a QP in RESET. Returns its index, or 0 with errno.
std::uint32_t claim_qp(Process& process, const QpRequest& request);

/// Makes the QP's number invalid. After it returns, no thread uses the QP. Returns false, having
/// changed nothing, if a stopped process holds one of its locks.
[[nodiscard]] bool stop_qp(Process& process, std::uint32_t index);

/// Frees the record and the ring of a stopped QP.
void release_qp(Process& process, std::uint32_t index);

}  // namespace hbmwire::emulation::nic
