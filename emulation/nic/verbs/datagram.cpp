// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "emulation/nic/queue/multicast.hpp"
#include "emulation/nic/transport/address_handle.hpp"
#include "emulation/nic/transport/datagram_header.hpp"
#include "emulation/nic/verbs/objects.hpp"

/// What datagrams need: address handles and multicast groups.
namespace hbmwire::emulation::nic {
namespace {

Gid gid_of(const ibv_gid& raw) {
  Gid gid;
  std::copy(std::begin(raw.raw), std::end(raw.raw), gid.begin());
  return gid;
}

/// What Linux asks of ib_attach_mcast: a UD QP and a multicast GID. The LID says nothing on
/// Ethernet.
int check_group(const ibv_qp& qp, const Gid& group) {
  return qp.qp_type == IBV_QPT_UD && is_multicast(group) ? 0 : EINVAL;
}

}  // namespace

ibv_ah* create_ah(ibv_pd* handle, ibv_ah_attr* attributes) {
  Pd& pd = object_of<Pd>(handle);
  int error = planned_failure(*pd.process, "ibv_create_ah", ObjectKind::ah);
  const DeviceInfo& device = pd.context->device;
  if (error == 0 && !address_is_valid(*attributes, device, attributes->port_num)) error = EINVAL;
  if (error == 0 && pd.process->live(ObjectKind::ah) >= kMaxAhs) error = ENOMEM;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto ah = std::make_unique<AddressHandle>();
  AddressVector& address = ah->address;
  const ibv_global_route& route = attributes->grh;
  address.sgid = device.port(attributes->port_num)->gids[route.sgid_index];
  address.dgid = gid_of(route.dgid);
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

int attach_mcast(ibv_qp* handle, const ibv_gid* gid, std::uint16_t /*lid*/) {
  Process& process = *object_of<Qp>(handle).process;
  if (const int error = planned_failure(process, "ibv_attach_mcast"); error != 0) return error;
  const Gid group = gid_of(*gid);
  if (const int error = check_group(*handle, group); error != 0) return error;
  return attach_multicast(process, handle->qp_num, group);
}

int detach_mcast(ibv_qp* handle, const ibv_gid* gid, std::uint16_t /*lid*/) {
  Process& process = *object_of<Qp>(handle).process;
  if (const int error = planned_failure(process, "ibv_detach_mcast"); error != 0) return error;
  const Gid group = gid_of(*gid);
  if (const int error = check_group(*handle, group); error != 0) return error;
  return detach_multicast(process, handle->qp_num, group);
}

}  // namespace hbmwire::emulation::nic
