// SPDX-License-Identifier: MIT
#pragma once

// Must precede the kernel's own header, which leaves out the same structures if this one was
// included.
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "emulation/common/robust_mutex.hpp"
#include "emulation/nic/state/table.hpp"

/// The connection manager's part of the shared state, which the kernel keeps for
/// /dev/infiniband/rdma_cm. CmTables::mutex guards all of it. Connecting is not a fast path, and
/// with a single lock a step can change both ends of a connection at once.
namespace hbmwire::emulation::nic {

inline constexpr std::uint32_t kMaxCmIds = 65536;  // librdmacm keeps handles up to 65535
inline constexpr std::uint32_t kMaxCmChannels = 65536;
inline constexpr std::uint32_t kMaxCmEvents = 65536;
inline constexpr std::uint32_t kMaxCmMulticasts = 8192;
inline constexpr std::uint32_t kMaxCmPorts = 65536;

/// The greatest lengths of private data in messages: InfiniBand 12.6 and annex A11. A consumer is
/// always told the greatest length, no matter how much the peer has filled.
inline constexpr std::uint8_t kReqPrivateData = 92;
inline constexpr std::uint8_t kRepPrivateData = 196;
inline constexpr std::uint8_t kRejPrivateData = 148;
inline constexpr std::uint8_t kSidrReqPrivateData = 216;
inline constexpr std::uint8_t kSidrRepPrivateData = 136;
/// The part of a request over IP that the kernel's CM uses itself: version, port, both addresses.
inline constexpr std::uint8_t kIpHeader = 36;

/// The state of an rdma_cm_id, as in the kernel's cma.c.
enum class CmaState : std::uint32_t {
  idle,
  address_bound,
  address_query,
  address_resolved,
  route_resolved,
  connect,
  disconnect,
  listen
};

/// The state of an id's communication, as in the kernel's cm.c. `none`: there is none yet.
enum class CmState : std::uint32_t {
  none,
  idle,
  req_sent,
  req_received,
  rep_sent,
  rep_received,
  established,
  dreq_sent,
  dreq_received,
  timewait,
  sidr_req_sent,
  sidr_req_received
};

/// The kernel's enum rdma_cm_event_type, which its public headers lack. librdmacm has the same
/// numbers.
enum class CmEventType : std::uint32_t {
  address_resolved = 0,
  address_error = 1,
  route_resolved = 2,
  connect_request = 4,
  connect_response = 5,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  multicast_join = 12,
  timewait_exit = 15
};

/// Has room for the addresses of IPv4, IPv6 and AF_IB.
struct CmAddress {
  alignas(8) std::array<std::byte, 64> bytes;
};

/// A NIC's port, as an id that is bound to it sees it. A guid of 0 means none.
struct CmPort {
  std::uint64_t guid;  // in network order
  std::array<std::uint8_t, 16> gid;
  std::uint32_t gid_index;
  std::uint32_t port;
};

/// A reference that may outlive its target. It is dead once the generations differ.
struct CmReference {
  std::uint32_t index;  // 0: none
  std::uint32_t generation;
};

/// An event channel, with its queue of events.
struct CmChannel {
  std::uint32_t claimed;
  std::uint32_t owner;        // process slot
  std::uint64_t fifo;         // has a byte for every event
  std::uint32_t first_event;  // 0: none
  std::uint32_t last_event;
  std::uint32_t events;
  std::uint32_t ids;  // the number of ids that use the channel
};

/// The members that searches over all ids look at, kept together so that a search touches little
/// memory.
struct CmKey {
  std::uint32_t claimed;
  std::uint32_t owner;  // process slot
  std::uint32_t port_space;
  std::uint16_t bound_port;  // 0: it holds none
  std::uint16_t listening;
  std::uint64_t node;  // inode of the node's directory
};

/// An rdma_cm_id, without the members in its CmKey.
struct CmId {
  std::uint32_t generation;
  std::uint32_t channel;
  std::uint32_t known;  // its owner has its handle; not before a request's event is read
  std::uint64_t uid;
  std::uint64_t network;  // inode of the network namespace
  std::uint32_t port_space;
  std::uint32_t qp_type;
  CmaState state;
  CmState cm;
  CmAddress source, destination;
  CmPort port;
  std::array<std::uint8_t, 16> remote_gid;

  std::uint32_t reuse_address;
  std::uint32_t family_only;
  std::uint32_t family_only_set;
  std::uint32_t service_type;
  std::uint32_t acknowledge_timeout;  // the value + 1; 0: not set
  std::uint32_t backlog;              // of a listener: the requests that it still has room for
  std::uint32_t events_reported;

  CmReference peer;
  std::uint32_t listener;       // set for a request until it is known
  std::uint32_t request_waits;  // its request was lost; its owner sends it again
  std::uint32_t local_qpn, remote_qpn;
  std::uint32_t srq;
  std::uint32_t responder_resources, initiator_depth;
  std::uint32_t retry_count, rnr_retry_count, flow_control;
  std::uint32_t psn, remote_psn;
  std::uint32_t qkey;
  rdma_ucm_ece ece;
  std::uint64_t deadline_ns;  // 0: nothing is due
  rdma_ucm_conn_param request;
};

/// An id's membership of a multicast group.
struct CmMulticast {
  std::uint32_t claimed;
  CmReference id;
  std::uint64_t uid;
  std::uint32_t events_reported;
  std::uint32_t send_only;
  CmAddress address;
};

/// An event in the queue of a channel.
struct CmEvent {
  std::uint32_t claimed;
  std::uint32_t next;
  std::uint32_t id;         // the id that gets the event; for a request the listener
  std::uint32_t multicast;  // 0: none
  CmReference request;      // the new id of a request
  rdma_ucm_event_resp body;
};

/// Both ends of a connection as they were before a step changed them. If the process dies during
/// the step, the next holder of the lock undoes it.
struct CmStep {
  std::uint32_t under_way;
  std::uint32_t event;                // the last event that it queued
  std::array<std::uint32_t, 2> ends;  // 0: none
  std::array<CmId, 2> before;
};

/// Ids have small numbers, because librdmacm has tables that are indexed by them.
template <std::size_t N>
using CmUse = RecordUse<N, 1, N, 64>;

/// All records of the connection manager.
struct CmTables {
  RobustMutex mutex;
  std::uint32_t busy;  // set while a holder changes the tables; a new holder that finds it set
                       // repairs them
  CmStep step;
  CmUse<kMaxCmChannels> channel_use;
  CmUse<kMaxCmIds> id_use;
  CmUse<kMaxCmEvents> event_use;
  CmUse<kMaxCmMulticasts> multicast_use;
  NumberSet<kMaxCmIds> listening;      // a superset of the ids whose CmKey::listening is set
  std::uint32_t holders[kMaxCmPorts];  // ids that hold a port, in all spaces and nodes
  std::uint32_t last_port;             // the last port given out, not to be reused at once
  std::uint64_t response_timeout_ms;   // 0: as long as the kernel's
  CmChannel channels[kMaxCmChannels];
  CmKey keys[kMaxCmIds];
  CmId ids[kMaxCmIds];
  CmMulticast multicasts[kMaxCmMulticasts];
  CmEvent events[kMaxCmEvents];
};

static_assert(std::is_trivially_destructible_v<CmTables> && std::is_standard_layout_v<CmTables>);

}  // namespace hbmwire::emulation::nic
