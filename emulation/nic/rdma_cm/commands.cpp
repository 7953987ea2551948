// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/commands.hpp"

#include <infiniband/verbs.h>

#include <array>

#include "emulation/nic/rdma_cm/address.hpp"
#include "emulation/nic/rdma_cm/addressing.hpp"
#include "emulation/nic/rdma_cm/command_call.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/rdma_cm/event_queue.hpp"
#include "emulation/nic/rdma_cm/qp_attributes.hpp"
#include "emulation/nic/state/planned_faults.hpp"

/// The commands of <rdma/rdma_user_cm.h>, checked and answered as in the kernel's ucma.c.
namespace hbmwire::emulation::nic {
namespace {

int qp_type_of(const rdma_ucm_create_id& command, std::uint32_t& type) {
  switch (command.ps) {
    case RDMA_PS_TCP:
      type = IBV_QPT_RC;
      return 0;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      type = IBV_QPT_UD;
      return 0;
    case RDMA_PS_IB:
      type = command.qp_type;
      return 0;
    default:
      return EINVAL;
  }
}

int create_id(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_create_id>();
  if (call.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  std::uint32_t type = 0;
  if (const int error = qp_type_of(command, type); error != 0) return error;
  CmTables& tables = call.cm.tables();
  const CmLock lock(call.cm.process);
  if (!lock.held()) return EAGAIN;
  const std::uint32_t index = claim_id(tables, call.cm.process.slot());
  if (index == 0) return ENOMEM;
  tables.keys[index].node = call.cm.node;
  CmId& id = tables.ids[index];
  set_channel(tables, id, call.file.channel);
  id.uid = command.uid;
  id.network = current_network();
  id.port_space = command.ps;
  id.qp_type = type;
  id.known = 1;
  const int error = call.write(command.response, rdma_ucm_create_id_resp{index});
  if (error != 0) release_id(tables, index);
  return error;
}

int destroy(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_destroy_id>();
  if (call.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  return with_id(call, command.id, [&](CmId&) {
    const std::uint32_t reported = destroy_id(call.cm.process, command.id);
    settle_fifo(call.cm.process, call.file.channel, call.file.fd);
    return call.write(command.response, rdma_ucm_destroy_id_resp{reported});
  });
}

int bind_ip(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_bind_ip>();
  const CmAddress address = make_address(&command.addr, sizeof command.addr);
  if (size_of(address) == 0 || family_of(address) == kAfIb) return EINVAL;
  return with_id(call, command.id, [&](CmId& id) { return bind_address(call.cm, id, address); });
}

int bind(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_bind>();
  const CmAddress address = make_address(&command.addr, command.addr_size);
  if (command.reserved != 0 || command.addr_size == 0 || command.addr_size != size_of(address)) {
    return EINVAL;
  }
  return with_id(call, command.id, [&](CmId& id) { return bind_address(call.cm, id, address); });
}

int resolve(const CommandCall& call, std::uint32_t handle, const CmAddress& source,
            const CmAddress& destination, std::uint32_t timeout_ms) {
  const bool has_source = family_of(source) != 0;
  if ((has_source && size_of(source) == 0) || size_of(destination) == 0) return EINVAL;
  return with_id(call, handle, [&](CmId& id) {
    return resolve_address(call.cm, id, has_source ? &source : nullptr, destination, timeout_ms);
  });
}

int resolve_ip(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_resolve_ip>();
  return resolve(call, command.id, make_address(&command.src_addr, sizeof command.src_addr),
                 make_address(&command.dst_addr, sizeof command.dst_addr), command.timeout_ms);
}

int resolve_any(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_resolve_addr>();
  const CmAddress source = make_address(&command.src_addr, command.src_size);
  const CmAddress destination = make_address(&command.dst_addr, command.dst_size);
  if (command.reserved != 0 || (command.src_size != 0 && command.src_size != size_of(source)) ||
      command.dst_size == 0 || command.dst_size != size_of(destination)) {
    return EINVAL;
  }
  return resolve(call, command.id, source, destination, command.timeout_ms);
}

int route(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_resolve_route>();
  return with_bound_id(call, command.id, [&](CmId& id) { return resolve_route(call.cm, id); });
}

int connect_id(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_connect>();
  if (command.conn_param.valid == 0) return EINVAL;
  const int error = with_bound_id(call, command.id, [&](CmId& id) {
    return connect(call.cm, id, command.conn_param, command.ece);
  });
  if (error == 0) call.cm.timer.watch();
  return error;
}

int listen_id(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_listen>();
  return with_id(call, command.id, [&](CmId& id) { return listen(call.cm, id, command.backlog); });
}

int accept_id(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_accept>();
  const int error = with_bound_id(call, command.id, [&](CmId& id) {
    if (command.conn_param.valid == 0) return accept(call.cm.process, id, nullptr, command.ece);
    const int failed = accept(call.cm.process, id, &command.conn_param, command.ece);
    if (failed == 0) id.uid = command.uid;
    return failed;
  });
  if (error == 0) call.cm.timer.watch();
  return error;
}

int reject_id(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_reject>();
  const std::uint16_t reason = command.reason != 0 ? command.reason : kRejConsumer;
  if (reason != kRejConsumer && reason != kRejVendorOption) return EINVAL;
  return with_bound_id(call, command.id, [&](CmId& id) {
    return reject(call.cm.process, id, reason, command.private_data, command.private_data_len);
  });
}

int disconnect_id(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_disconnect>();
  const int error =
      with_bound_id(call, command.id, [&](CmId& id) { return disconnect(call.cm.process, id); });
  if (error == 0) call.cm.timer.watch();
  return error;
}

int init_qp_attr(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_init_qp_attr>();
  return with_bound_id(call, command.id, [&](CmId& id) {
    ib_uverbs_qp_attr attributes{};
    const int error = init_qp_attributes(id, command.qp_state, attributes);
    return error != 0 ? error : call.write(command.response, attributes);
  });
}

int set_id_option(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_set_option>();
  constexpr std::uint32_t kLargestOption = 1U << 20U;
  if (command.optlen > kLargestOption) return EINVAL;
  const auto* const value = reinterpret_cast<const void*>(command.optval);
  if (value == nullptr && command.optlen != 0) return EFAULT;
  return with_id(call, command.id, [&](CmId& id) {
    return set_option(call.cm, id, command.level, command.optname, value, command.optlen);
  });
}

int notify_id(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_notify>();
  return with_bound_id(call, command.id,
                       [&](CmId& id) { return notify(call.cm.process, id, command.event); });
}

/// Moves the id to the channel that the command is written to, from the channel that it names.
int migrate(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_migrate_id>();
  const ChannelFile from = call.find_channel(static_cast<int>(command.fd));
  if (from.channel == 0) return from.fd < 0 ? ENOENT : EINVAL;
  CmTables& tables = call.cm.tables();
  const CmLock lock(call.cm.process);
  if (!lock.held()) return EAGAIN;
  int error = 0;
  // The id must belong to the channel that the command names.
  const CommandCall there{call.cm, from, call.find_channel, call.in, call.out_bytes};
  CmId* id = id_of_call(there, command.id, error);
  if (id == nullptr) return error;
  if (from.channel != call.file.channel) {
    set_channel(tables, *id, call.file.channel);
    for (const CmKey& key : in_use(tables.keys, tables.id_use)) {
      CmId& request = tables.ids[index_in(tables.keys, key)];
      if (key.claimed != 0 && request.known == 0 && request.listener == command.id)
        set_channel(tables, request, call.file.channel);
    }
    move_events(call.cm.process, command.id, from.channel, call.file.channel);
    settle_fifo(call.cm.process, from.channel, from.fd);
  }
  return call.write(command.response, rdma_ucm_migrate_resp{id->events_reported});
}

struct Command {
  const char* name;  // the name in fault plans: the function of librdmacm that sends it
  int (*run)(const CommandCall&);
  std::size_t least_bytes;
};

/// Indexed by command number. Later kernels extended two of them; the shorter form of older
/// libraries is accepted.
constexpr std::array<Command, 23> kCommands{{
    {"rdma_create_id", create_id, sizeof(rdma_ucm_create_id)},
    {"rdma_destroy_id", destroy, offsetof(rdma_ucm_destroy_id, reserved)},
    {"rdma_bind_addr", bind_ip, sizeof(rdma_ucm_bind_ip)},
    {"rdma_resolve_addr", resolve_ip, sizeof(rdma_ucm_resolve_ip)},
    {"rdma_resolve_route", route, sizeof(rdma_ucm_resolve_route)},
    {"rdma_query_route", query_route, offsetof(rdma_ucm_query, option)},
    {"rdma_connect", connect_id, offsetof(rdma_ucm_connect, ece)},
    {"rdma_listen", listen_id, sizeof(rdma_ucm_listen)},
    {"rdma_accept", accept_id, offsetof(rdma_ucm_accept, ece)},
    {"rdma_reject", reject_id, sizeof(rdma_ucm_reject)},
    {"rdma_disconnect", disconnect_id, sizeof(rdma_ucm_disconnect)},
    {"rdma_init_qp_attr", init_qp_attr, sizeof(rdma_ucm_init_qp_attr)},
    {"rdma_get_cm_event", get_event, sizeof(rdma_ucm_get_event)},
    {"rdma_get_option", nullptr, 0},
    {"rdma_set_option", set_id_option, sizeof(rdma_ucm_set_option)},
    {"rdma_notify", notify_id, sizeof(rdma_ucm_notify)},
    {"rdma_join_multicast", join_ip,
     offsetof(rdma_ucm_join_ip_mcast, id) + sizeof(rdma_ucm_join_ip_mcast::id)},
    {"rdma_leave_multicast", leave, offsetof(rdma_ucm_destroy_id, reserved)},
    {"rdma_migrate_id", migrate, sizeof(rdma_ucm_migrate_id)},
    {"rdma_query", query, sizeof(rdma_ucm_query)},
    {"rdma_bind_addr", bind, sizeof(rdma_ucm_bind)},
    {"rdma_resolve_addr", resolve_any, sizeof(rdma_ucm_resolve_addr)},
    {"rdma_join_multicast", join_any, sizeof(rdma_ucm_join_mcast)},
}};
static_assert(kCommands.size() == RDMA_USER_CM_CMD_JOIN_MCAST + 1);

}  // namespace

CmId* id_of_call(const CommandCall& call, std::uint32_t handle, int& error) {
  CmTables& tables = call.cm.tables();
  if (handle == 0 || handle >= kMaxCmIds || tables.keys[handle].claimed == 0 ||
      tables.ids[handle].known == 0) {
    error = ENOENT;
    return nullptr;
  }
  error = EINVAL;
  return tables.ids[handle].channel == call.file.channel ? &tables.ids[handle] : nullptr;
}

ssize_t execute_command(Cm& cm, const ChannelFile& file, const void* data, std::size_t size,
                        const FindChannel& find_channel) {
  rdma_ucm_cmd_hdr header{};
  if (size < sizeof header) return -EINVAL;
  std::memcpy(&header, data, sizeof header);
  if (header.cmd >= kCommands.size() || header.in + sizeof header > size) return -EINVAL;
  const Command& command = kCommands[header.cmd];
  if (command.run == nullptr) return -ENOSYS;
  if (header.in < command.least_bytes) return -EINVAL;
  if (const int planned = planned_faults(cm.process, command.name).error_number; planned != 0) {
    return -planned;
  }
  const std::span in{static_cast<const std::byte*>(data) + sizeof header, header.in};
  const CommandCall call{cm, file, find_channel, in, header.out};
  int error = command.run(call);
  // Resources of dead processes must not be in the way: free them and try again.
  const bool in_the_way = error == EADDRINUSE || error == EADDRNOTAVAIL || error == ENOMEM;
  if (in_the_way && reap_the_dead(cm.process)) error = command.run(call);
  return error != 0 ? -error : static_cast<ssize_t>(size);
}

}  // namespace hbmwire::emulation::nic
