// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "emulation/nic/queue/multicast.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/transport/address_handle.hpp"
#include "emulation/nic/transport/datagram_header.hpp"
#include "emulation/nic/verbs/objects.hpp"

/// Address handles and multicast groups, for datagrams.
namespace hbmwire::emulation::nic {
namespace {

Gid gid_of(const ibv_gid& raw) {
  Gid gid;
  std::copy(std::begin(raw.raw), std::end(raw.raw), gid.begin());
  return gid;
}

bool on_infiniband(ibv_qp* qp) {
  return object_of<Qp>(qp).context->device.ports.front().is_infiniband();
}

/// On Ethernet a group's LID has no meaning.
Destination group_of(ibv_qp* qp, const ibv_gid& gid, std::uint16_t lid) {
  return {gid_of(gid), on_infiniband(qp) ? lid : std::uint16_t{0}};
}

/// The checks of Linux in ib_attach_mcast: it takes a UD QP and a multicast GID; on InfiniBand also
/// a multicast LID.
int check_group(ibv_qp* qp, const Destination& group) {
  constexpr std::uint16_t kFirstGroup = 0xc000;  // the first multicast LID
  constexpr std::uint16_t kPermissive = 0xffff;  // not a group, though it follows them
  const bool good_lid =
      !on_infiniband(qp) || (group.lid >= kFirstGroup && group.lid != kPermissive);
  return qp->qp_type == IBV_QPT_UD && is_multicast(group.gid) && good_lid ? 0 : EINVAL;
}

}  // namespace

ibv_ah* create_ah(ibv_pd* handle, ibv_ah_attr* attributes) {
  Pd& pd = object_of<Pd>(handle);
  int error = planned_failure(*pd.process, "ibv_create_ah", ObjectKind::ah);
  const DeviceInfo& device = pd.context->device;
  const PortInfo* port = device.port(attributes->port_num);
  if (error == 0) error = check_address(*attributes, device, attributes->port_num);
  if (error == 0 && pd.process->live(ObjectKind::ah) >= kMaxAhs) error = ENOMEM;
  if (error != 0) return null_with(error);
  auto ah = std::make_unique<AddressHandle>();
  AddressVector& address = ah->address;
  const ibv_global_route& route = attributes->grh;
  address.to = destination_of(*attributes, port->is_infiniband());
  address.service_level = port->is_infiniband() ? attributes->sl : std::uint8_t{0};
  if (address.to.global) address.sgid = port->gids[route.sgid_index];
  address.routable = sysfs_line(device.directory / "ports" / std::to_string(attributes->port_num) /
                                "gid_attrs/types" / std::to_string(route.sgid_index)) == "RoCE v2";
  address.traffic_class = route.traffic_class;
  address.hop_limit = route.hop_limit;
  address.flow_label = route.flow_label;
  pd.users.fetch_add(1);
  pd.process->count(ObjectKind::ah, 1);
  return &ah.release()->handle;
}

int destroy_ah(ibv_ah* handle) {
  Pd& pd = object_of<Pd>(handle->pd);
  if (const int error = planned_failure(*pd.process, "ibv_destroy_ah"); error != 0) return error;
  pd.users.fetch_sub(1);
  pd.process->count(ObjectKind::ah, -1);
  delete &object_of<AddressHandle>(handle);
  return 0;
}

int attach_mcast(ibv_qp* handle, const ibv_gid* gid, std::uint16_t lid) {
  Process& process = *object_of<Qp>(handle).process;
  if (const int error = planned_failure(process, "ibv_attach_mcast"); error != 0) return error;
  const Destination group = group_of(handle, *gid, lid);
  if (const int error = check_group(handle, group); error != 0) return error;
  return attach_multicast(process, handle->qp_num, group);
}

int detach_mcast(ibv_qp* handle, const ibv_gid* gid, std::uint16_t lid) {
  Process& process = *object_of<Qp>(handle).process;
  if (const int error = planned_failure(process, "ibv_detach_mcast"); error != 0) return error;
  const Destination group = group_of(handle, *gid, lid);
  if (const int error = check_group(handle, group); error != 0) return error;
  return detach_multicast(process, handle->qp_num, group);
}

}  // namespace hbmwire::emulation::nic
