// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

class Process;
class Sender;

/// Counts the outcome of a request at the ports of the requester and the responder. Counts nothing
/// for a request that has to wait.
///
/// Bytes are those of the payload. Packets are those that carry payload, at least one for a
/// request. Headers and acknowledgements are not counted.
void count_outcome(Process& process, Sender& sender, std::uint32_t responder_port,
                   const Request& request, const Outcome& outcome);

/// Makes the helper thread collect the counted traffic. May take as long as starting a thread the
/// first time, so call it after the request has completed.
void announce_traffic(Process& process, Sender& sender);

/// Counts a request that is not acknowledged. `to` is the port where it arrives; 0: it does not
/// arrive. If the requester's link is down, it is counted as discarded.
void count_unacknowledged(Process& process, Sender& sender, std::uint32_t to,
                          const Request& request, const Outcome& sent);

/// Count the begin and the end of a wait. It ends when the request goes on, or when its retries are
/// used up.
///
/// A timeout is counted for each retry that fits into the wait. An RNR NAK is counted when the wait
/// begins. The requester does not follow the receiver's RNR timer here, so the other NAKs are
/// counted only if they use up the retries.
void count_wait_begin(Process& process, const Sender& sender, Wait wait);
void count_wait_end(Process& process, const Sender& sender, Wait wait, std::uint64_t waited_ns,
                    bool used_up);

/// Count a request and a receive that complete with an error.
void count_failed_completion(Process& process, std::uint32_t port, ibv_wc_status status);
void count_failed_receive(Process& process, std::uint32_t port, ibv_wc_status status);

inline void count_completion(Process& process, std::uint32_t port, ibv_wc_status status) {
  if (status != IBV_WC_SUCCESS) count_failed_completion(process, port, status);
}

inline void count_receive(Process& process, std::uint32_t port, ibv_wc_status status) {
  if (status != IBV_WC_SUCCESS) count_failed_receive(process, port, status);
}

}  // namespace hbmwire::emulation::nic
