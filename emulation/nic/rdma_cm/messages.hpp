// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/rdma_cm/event_queue.hpp"

/// The effects of a CM message where it arrives. CmLock is held.
namespace hbmwire::emulation::nic {

/// The timewait of RoCE: 4.096 us * 2^18, from the packet life time that the kernel uses for every
/// path.
inline constexpr std::uint64_t kTimewaitNs = 1'024'000'000;

/// How long a peer may take to answer: 4096 ms for each of 16 tries.
inline constexpr std::uint64_t kResponseTimeoutMs = 65536;

std::uint64_t response_deadline(const CmTables& tables);
void enter_timewait(CmId& id);

void receive_reply(Process& process, CmId& to, const CmId& from,
                   const rdma_ucm_conn_param& parameters);
void receive_ready(Process& process, CmId& to);
void receive_reject(Process& process, CmId& to, std::uint16_t reason, const std::uint8_t* data,
                    std::uint8_t size);
void receive_disconnect_request(Process& process, CmId& to);
void receive_disconnect_reply(Process& process, CmId& to);
void receive_datagram_reply(Process& process, CmId& to, const CmId& from, int status,
                            const std::uint8_t* data, std::uint8_t size);

/// Handles a peer that did not answer.
void receive_nothing(Process& process, CmId& to);

}  // namespace hbmwire::emulation::nic
