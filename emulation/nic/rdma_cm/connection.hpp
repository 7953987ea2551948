// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/rdma_cm/cm.hpp"

/// The communication of an id with its peer. The messages of InfiniBand's CM (REQ, REP, RTU, REJ,
/// DREQ, DREP; for datagrams SIDR REQ and REP) take effect at both ends in one step, with CmLock
/// held. The states are those of the kernel's cma.c and cm.c. Functions return 0 or an errno.
namespace hbmwire::emulation::nic {

/// Reasons of a REJ: InfiniBand 12.6.7.2.
inline constexpr std::uint16_t kRejTimeout = 4;
inline constexpr std::uint16_t kRejInvalidServiceId = 8;
inline constexpr std::uint16_t kRejConsumer = 28;
inline constexpr std::uint16_t kRejVendorOption = 35;

/// Status of a SIDR reply.
inline constexpr int kSidrUnsupported = 1;
inline constexpr int kSidrReject = 2;

/// Retry counts have three bits in a CM message.
inline constexpr std::uint32_t kMostRetries = 7;

inline constexpr std::uint32_t kDefaultQkey = 0x01234567;  // RDMA_UDP_QKEY

/// Sends the request (REQ or SIDR REQ).
int connect(Cm& cm, CmId& id, const rdma_ucm_conn_param& parameters, const rdma_ucm_ece& ece);

/// Sends the reply (REP or SIDR REP). With `parameters` null the active side accepts the reply
/// (RTU).
int accept(Process& process, CmId& id, const rdma_ucm_conn_param* parameters,
           const rdma_ucm_ece& ece);

/// Sends a REJ, or a SIDR REP that refuses, with `size` bytes of private data.
int reject(Process& process, CmId& id, std::uint16_t reason, const std::uint8_t* data,
           std::uint8_t size);
/// Sends a DREQ, or the DREP that answers the peer's DREQ.
int disconnect(Process& process, CmId& id);
/// rdma_notify: the application has got the asynchronous `event` of the id's queue pair.
int notify(Process& process, CmId& id, std::uint32_t event);

/// Sends a request again that was lost because the backlog was full or a link was down.
void retry_request(Cm& cm, CmId& id);

/// Handles an id whose deadline has passed.
void deadline_passed(Process& process, CmId& id);

/// Ends an id with its communication, its events, its groups and its port. Returns how many of its
/// events were reported.
std::uint32_t destroy_id(Process& process, std::uint32_t index);

/// Ends a channel and all its ids.
void destroy_channel(Process& process, std::uint32_t channel);

/// Ends the channels and ids of a dead process, as its kernel would have done. Returns false if a
/// stopped process holds the lock.
bool reap_connections(Process& process, std::uint32_t slot);

/// Reaps processes that died with open channels. CmLock is not held. Returns whether there were
/// any.
bool reap_the_dead(Process& process);

}  // namespace hbmwire::emulation::nic
