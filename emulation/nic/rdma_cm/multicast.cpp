// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/multicast.hpp"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/rdma_cm/event_queue.hpp"
#include "emulation/nic/rdma_cm/qp_attributes.hpp"

namespace hbmwire::emulation::nic {
namespace {

constexpr std::uint32_t kMulticastQpn = 0xffffff;

/// The kernel's errno for IPv6 groups over RoCE v2. Its public headers lack the number.
constexpr int kNotSupported = 524;

}  // namespace

int join_multicast(Process& process, CmId& id, const CmAddress& group, bool send_only,
                   std::uint64_t uid, std::uint32_t& handle) {
  if (id.port.guid == 0 || id.qp_type != IBV_QPT_UD) return EINVAL;
  if (id.state != CmaState::address_bound && id.state != CmaState::address_resolved) return EINVAL;
  if (is_zero(group)) return EINVAL;
  if (family_of(group) != AF_INET) return kNotSupported;
  CmTables& tables = tables_of(process);
  const std::uint32_t index = tables.multicast_use.claim();
  if (index == 0) return ENOMEM;
  if (id.qkey == 0) id.qkey = kDefaultQkey;
  CmMulticast& joined = tables.multicasts[index];
  joined = CmMulticast{};
  joined.id = refer_to(tables, id);
  joined.uid = uid;
  joined.send_only = send_only ? 1 : 0;
  joined.address = group;
  joined.claimed = 1;

  rdma_ucm_event_resp event = make_event(tables, id, CmEventType::multicast_join);
  event.uid = uid;
  event.id = index;
  event.param.ud.ah_attr = address_handle_of(id);
  // The GID of a group is its IPv4-mapped address, like a host's. `dlid` stays 0: RoCE has no LIDs.
  const Gid gid = gid_of(group);
  std::memcpy(event.param.ud.ah_attr.grh.dgid, gid.data(), gid.size());
  event.param.ud.qp_num = kMulticastQpn;
  event.param.ud.qkey = id.qkey;
  queue_multicast_event(process, id, index, event);
  handle = index;
  return 0;
}

std::uint32_t leave_multicast(Process& process, std::uint32_t handle) {
  CmTables& tables = tables_of(process);
  CmMulticast& joined = tables.multicasts[handle];
  if (const CmId* id = find(tables, joined.id)) {
    drop_multicast_events(tables, id->channel, handle);
  }
  joined.claimed = 0;
  tables.multicast_use.release(handle);
  return joined.events_reported;
}

}  // namespace hbmwire::emulation::nic
