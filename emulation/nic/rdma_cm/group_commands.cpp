// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/address.hpp"
#include "emulation/nic/rdma_cm/command_call.hpp"
#include "emulation/nic/rdma_cm/event_queue.hpp"
#include "emulation/nic/rdma_cm/multicast.hpp"

namespace hbmwire::emulation::nic {
namespace {

int join(const CommandCall& call, std::uint32_t handle, const CmAddress& group, bool send_only,
         std::uint64_t uid, std::uint64_t response) {
  if (call.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  return with_bound_id(call, handle, [&](CmId& id) {
    rdma_ucm_create_id_resp made{};
    const int error = join_multicast(call.cm.process, id, group, send_only, uid, made.id);
    return error != 0 ? error : call.write(response, made);
  });
}

}  // namespace

int join_ip(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_join_ip_mcast>();
  const CmAddress group = make_address(&command.addr, sizeof command.addr);
  if (size_of(group) == 0) return EINVAL;
  return join(call, command.id, group, false, command.uid, command.response);
}

int join_any(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_join_mcast>();
  const CmAddress group = make_address(&command.addr, command.addr_size);
  if (command.addr_size == 0 || command.addr_size != size_of(group) ||
      command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
    return EINVAL;
  }
  return join(call, command.id, group, command.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
              command.uid, command.response);
}

int leave(const CommandCall& call) {
  const auto command = call.read<rdma_ucm_destroy_id>();
  if (call.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  CmTables& tables = call.cm.tables();
  const CmLock lock(call.cm.process);
  if (!lock.held()) return EAGAIN;
  if (command.id == 0 || command.id >= kMaxCmMulticasts ||
      tables.multicasts[command.id].claimed == 0) {
    return ENOENT;
  }
  const CmId* id = find(tables, tables.multicasts[command.id].id);
  if (id == nullptr || id->channel != call.file.channel) return EINVAL;
  const std::uint32_t reported = leave_multicast(call.cm.process, command.id);
  settle_fifo(call.cm.process, call.file.channel, call.file.fd);
  return call.write(command.response, rdma_ucm_destroy_id_resp{reported});
}

}  // namespace hbmwire::emulation::nic
