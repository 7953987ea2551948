// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// Where the receive of a message comes from, and where it completes.
struct ReceiveSource {
  QpRecord& qp;       // that the message came in on
  std::uint32_t srq;  // 0: the QP's own queue
  std::uint32_t cq;
  Party party;                   // whose memory the receive's elements name
  std::uint32_t srq_number = 0;  // XRC: the SRQ may go while the QP lives
};

/// The QP's own queue, or the SRQ that it was created with.
ReceiveSource receives_of(SharedState& shared, QpRecord& qp);

/// Posts one receive; 0 or an errno. In ERR it completes at once, flushed.
int post_receive(Process& process, QpRecord& qp, const ibv_recv_wr& request);

/// A message is going to be received: has what its owner wrote last fetched.
void prefetch_receive(Process& process, const QpRecord& qp);

/// False: none is posted; then whoever posts the next one wakes the senders.
bool receive_is_posted(Process& process, const ReceiveSource& source);

/// Copies the oldest receive out: of a QP's own queue without consuming it, of an SRQ for good,
/// since other QPs take from it too. False: as above.
bool take_receive(Process& process, const ReceiveSource& source, ReceiveEntry& entry);

/// Completes the receive that take_receive gave.
void complete_receive(Process& process, const ReceiveSource& source, const Cqe& entry,
                      bool solicited);

/// Raises IBV_EVENT_COMM_EST when the first message comes in before the QP was moved to RTS.
void note_arrival(Process& process, QpRecord& qp);

/// Moves a QP that still has number `qpn` to ERR: flushes its receives, wakes its owner's parked
/// requests, and raises `event` with it. Does nothing to one in RESET or already in ERR. Takes
/// QpRecord::queue only.
void enter_error(Process& process, QpRecord& qp, std::uint32_t qpn,
                 std::optional<ibv_event_type> event);

/// Wakes the peer whose request waits for something of this QP.
void wake_sender(Process& process, QpRecord& qp);

}  // namespace hbmwire::emulation::nic
