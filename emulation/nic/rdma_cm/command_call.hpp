// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "emulation/nic/rdma_cm/commands.hpp"

namespace hbmwire::emulation::nic {

/// One command: what came in, and how much of an answer fits.
struct CommandCall {
  Cm& cm;
  const ChannelFile& file;
  const FindChannel& find_channel;
  std::span<const std::byte> in;
  std::size_t out_bytes;

  /// The command's structure, of which older libraries send less; the dispatcher has seen to the
  /// least.
  template <typename Command>
  [[nodiscard]] Command read() const {
    Command command{};
    std::memcpy(&command, in.data(), std::min(in.size(), sizeof command));
    return command;
  }

  /// Writes an answer of which older libraries take less, but never less than `least`; 0 or an
  /// errno.
  template <typename Response>
  [[nodiscard]] int write(std::uint64_t to, const Response& response,
                          std::size_t least = sizeof(Response)) const {
    if (out_bytes < least) return ENOSPC;
    if (to == 0) return EFAULT;
    std::memcpy(reinterpret_cast<void*>(to), &response, std::min(out_bytes, sizeof response));
    return 0;
  }
};

/// The id of a handle. Null with the kernel's errno: ENOENT when there is none, EINVAL when it is
/// not this channel's.
CmId* id_of_call(const CommandCall& call, std::uint32_t handle, int& error);

/// Runs `act` on the id of a command, under the lock.
template <typename Act>
int with_id(const CommandCall& call, std::uint32_t handle, Act act) {
  const CmLock lock(call.cm.process);
  if (!lock.held()) return EAGAIN;
  int error = 0;
  CmId* id = id_of_call(call, handle, error);
  return id == nullptr ? error : act(*id);
}

/// The same for commands that make sense only once the id is bound to a NIC.
template <typename Act>
int with_bound_id(const CommandCall& call, std::uint32_t handle, Act act) {
  return with_id(call, handle, [&](CmId& id) { return id.port.guid == 0 ? EINVAL : act(id); });
}

/// The commands that only look; in queries.cpp.
int query_route(const CommandCall& call);
int query(const CommandCall& call);
int get_event(const CommandCall& call);

/// Those about multicast groups; in group_commands.cpp.
int join_ip(const CommandCall& call);
int join_any(const CommandCall& call);
int leave(const CommandCall& call);

}  // namespace hbmwire::emulation::nic
