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

/// A command with its input and the room for its answer.
struct CommandCall {
  Cm& cm;
  const ChannelFile& file;
  const FindChannel& find_channel;
  std::span<const std::byte> in;
  std::size_t out_bytes;

  /// Reads the command's structure. Members that an older library does not send are zero. The
  /// dispatcher has checked the least size.
  template <typename Command>
  [[nodiscard]] Command read() const {
    Command command{};
    std::memcpy(&command, in.data(), std::min(in.size(), sizeof command));
    return command;
  }

  /// Writes as much of an answer as fits, because older libraries take less of it. Returns 0,
  /// ENOSPC if less than `least` fits, or EFAULT for a null address.
  template <typename Response>
  [[nodiscard]] int write(std::uint64_t to, const Response& response,
                          std::size_t least = sizeof(Response)) const {
    if (out_bytes < least) return ENOSPC;
    if (to == 0) return EFAULT;
    std::memcpy(reinterpret_cast<void*>(to), &response, std::min(out_bytes, sizeof response));
    return 0;
  }
};

/// The id of a handle. Returns null and sets `error` as the kernel does: ENOENT if there is none,
/// EINVAL if it belongs to another channel.
CmId* id_of_call(const CommandCall& call, std::uint32_t handle, int& error);

/// Calls `act` with the id of a command, with the lock held.
template <typename Act>
int with_id(const CommandCall& call, std::uint32_t handle, Act act) {
  const CmLock lock(call.cm.process);
  if (!lock.held()) return EAGAIN;
  int error = 0;
  CmId* id = id_of_call(call, handle, error);
  return id == nullptr ? error : act(*id);
}

/// As with_id(), for commands that need an id that is bound to a NIC.
template <typename Act>
int with_bound_id(const CommandCall& call, std::uint32_t handle, Act act) {
  return with_id(call, handle, [&](CmId& id) { return id.port.guid == 0 ? EINVAL : act(id); });
}

/// Commands that only read; in queries.cpp.
int query_route(const CommandCall& call);
int query(const CommandCall& call);
int get_event(const CommandCall& call);

/// Commands for multicast groups; in group_commands.cpp.
int join_ip(const CommandCall& call);
int join_any(const CommandCall& call);
int leave(const CommandCall& call);

}  // namespace hbmwire::emulation::nic
