// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// Posts one receive; 0 or an errno. In ERR it completes at once, flushed.
int post_receive(Process& process, QpRecord& qp, const ibv_recv_wr& request);

/// Copies the oldest receive out without consuming it. False: none is posted; then `sender_waits`
/// is set, so that the next post_receive wakes the sender.
bool peek_receive(Process& process, QpRecord& qp, ReceiveEntry& entry);

/// Consumes the oldest receive and completes it.
void finish_receive(Process& process, QpRecord& qp, const Cqe& entry, bool solicited);

/// Moves a QP that still has number `qpn` to ERR: flushes its receives, wakes its owner's parked
/// requests, and raises `event` with it. Does nothing to one in RESET or already in ERR. Takes
/// QpRecord::queue only.
void enter_error(Process& process, QpRecord& qp, std::uint32_t qpn,
                 std::optional<ibv_event_type> event);

/// Wakes the peer whose request waits for something of this QP.
void wake_sender(Process& process, QpRecord& qp);

}  // namespace hbmwire::emulation::nic
