// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

class Process;
class Sender;

/// Counts what an attempt at a request came to, at the requester's port and the responder's. Of one
/// that has to wait nothing is counted here.
///
/// Data are the payload, packets are those that carry it (at least one a request): headers and
/// acknowledgements are not counted.
void count_outcome(Process& process, Sender& sender, std::uint32_t responder_port,
                   const Request& request, const Outcome& outcome);

/// Has what was counted collected. It may take a while, the first time as long as starting a thread
/// takes: a request is completed before.
void announce_traffic(Process& process, Sender& sender);

/// Counts a request of which the requester never hears again: it arrives at port `to`, or nowhere
/// (0), or does not even leave.
void count_unacknowledged(Process& process, Sender& sender, std::uint32_t to,
                          const Request& request, const Outcome& sent);

/// A request begins to wait, and has waited: then it goes on, or its retries are used up.
///
/// A timeout is counted for each retry that its time has allowed. An RNR NAK is counted when the
/// wait begins; when the receiver is looked at again is not a matter of its timer here, so that the
/// others are counted only if they use the retries up.
void count_wait_begin(Process& process, const Sender& sender, Wait wait);
void count_wait_end(Process& process, const Sender& sender, Wait wait, std::uint64_t waited_ns,
                    bool used_up);

/// A request that completes, and a receive.
void count_failed_completion(Process& process, std::uint32_t port, ibv_wc_status status);
void count_failed_receive(Process& process, std::uint32_t port, ibv_wc_status status);

inline void count_completion(Process& process, std::uint32_t port, ibv_wc_status status) {
  if (status != IBV_WC_SUCCESS) count_failed_completion(process, port, status);
}

inline void count_receive(Process& process, std::uint32_t port, ibv_wc_status status) {
  if (status != IBV_WC_SUCCESS) count_failed_receive(process, port, status);
}

}  // namespace hbmwire::emulation::nic
