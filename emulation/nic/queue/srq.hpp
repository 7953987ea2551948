// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/state/nic_room.hpp"
#include "emulation/nic/state/process.hpp"

/// Shared receive queues in the fabric's table.
namespace hbmwire::emulation::nic {

/// The properties of an SRQ to be made.
struct SrqRequest {
  std::uint32_t type = IBV_SRQT_BASIC;
  std::uint64_t pd = 0;
  std::uint64_t xrcd = 0;
  std::uint32_t cq = 0;
  std::uint32_t depth = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t limit = 0;
  EventSource events{};
  NicRoom room;
};

/// Makes an SRQ. Returns its index, or 0 with errno.
std::uint32_t claim_srq(Process& process, const SrqRequest& request);

/// Makes the SRQ's number invalid, so that no more receives are taken from it. Returns false,
/// having changed nothing, if a stopped process holds its lock.
[[nodiscard]] bool stop_srq(Process& process, std::uint32_t index);

void release_srq(Process& process, std::uint32_t index);

/// Changes the depth, the limit or both. Returns 0, or an errno with nothing changed: EBUSY if a
/// stopped process holds a lock; EINVAL if the SRQ holds more receives than the new depth, or the
/// limit exceeds the depth. A limit arms the event, which comes at once if fewer receives are
/// posted.
int change_srq(Process& process, std::uint32_t index, std::optional<std::uint32_t> depth,
               std::optional<std::uint32_t> limit);

/// Posts a receive and wakes the processes whose requests wait for one. Returns 0 or an errno.
int post_shared_receive(Process& process, SrqRecord& srq, const ibv_recv_wr& request);

/// Whether a receive is posted, or the QP has one already. `none`: there is none, or the SRQ is
/// gone; the next post wakes this process.
Taking look_for_shared_receive(Process& process, std::uint32_t index, const TakenReceive& taken);

/// Takes the oldest receive, unless the QP has one already. Raises IBV_EVENT_SRQ_LIMIT_REACHED if
/// fewer receives than the limit are left. Returns as look_for_shared_receive().
Taking take_shared_receive(Process& process, std::uint32_t index, TakenReceive& taken);

}  // namespace hbmwire::emulation::nic
