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

/// Index of a new SRQ, or 0 with errno.
std::uint32_t claim_srq(Process& process, const SrqRequest& request);

/// Makes the number invalid: nobody takes a receive from it any more. False: a process was stopped
/// with it in its hands, and nothing has changed.
[[nodiscard]] bool stop_srq(Process& process, std::uint32_t index);

void release_srq(Process& process, std::uint32_t index);

/// Another depth, another limit: 0 or an errno, and then nothing has changed. EBUSY: Hold; EINVAL:
/// the SRQ holds more receives than that, or the limit is beyond its depth. A limit arms the event,
/// which comes at once when fewer receives are posted.
int change_srq(Process& process, std::uint32_t index, std::optional<std::uint32_t> depth,
               std::optional<std::uint32_t> limit);

/// 0 or an errno; wakes the processes whose requests wait for a receive.
int post_shared_receive(Process& process, SrqRecord& srq, const ibv_recv_wr& request);

/// Whether one is posted, or is the QP's already. `none`: that, or the SRQ is gone; then this
/// process is woken by the next post.
Taking look_for_shared_receive(Process& process, std::uint32_t index, const TakenReceive& taken);

/// Takes the oldest receive, unless one is the QP's already, and raises
/// IBV_EVENT_SRQ_LIMIT_REACHED when fewer than the limit are left. As above.
Taking take_shared_receive(Process& process, std::uint32_t index, TakenReceive& taken);

}  // namespace hbmwire::emulation::nic
