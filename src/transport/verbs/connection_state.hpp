// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

#include "verbs/nic_state.hpp"
#include "verbs/wiring.hpp"

namespace hbmwire::detail {

// 1 GiB: no message is longer, whatever a port says; it keeps ibv_sge's 32-bit length far from its
// limit.
inline constexpr std::uint64_t kMaxMessageBytes = 1ULL << 30;

/// One work request for the send queue.
struct Work {
  std::uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  Slice slice;
  RemoteMemory remote{};
  std::uint32_t immediate = 0;
  const char* call = "";  ///< for its error
};

/// A connection's objects, destroyed in reverse: queue pair, completion queue, channel, device.
struct ConnectionState {
  static Result<std::unique_ptr<ConnectionState>> create(const Nic& nic,
                                                         const Connection::Options& options);
  ConnectionState() = default;
  ConnectionState(const ConnectionState&) = delete;
  ConnectionState& operator=(const ConnectionState&) = delete;
  ~ConnectionState();

  /// As Connection::connect().
  Result<void> connect(const ConnectionAddress& to);

  Result<void> post(const Work& work) const;

  /// One completion, or none yet; a failed one is an error.
  [[nodiscard]] Result<std::optional<Completion>> poll() const;

  /// The scatter/gather element of a slice; all zero for an empty one. Errors: outside its region,
  /// of a region that this NIC does not know, or in a child by fork(2).
  [[nodiscard]] Result<ibv_sge> to_sge(const Slice& slice, const char* call) const;

  /// Asks for an event with the next completion, unless it is asked for already.
  Result<void> arm();

  /// Sleeps until the channel has an event (true) or `also_fd` is readable (false).
  [[nodiscard]] Result<bool> sleep(const Wait& wait, int also_fd) const;

  /// Reads the event that made the channel readable; the queue must be armed anew afterwards.
  Result<void> take_event();

  std::shared_ptr<NicState> nic;
  verbs::CompletionChannel channel;
  verbs::Cq cq;
  verbs::Qp qp;
  LinkOptions link;
  verbs::PortEntries entries;
  ConnectionAddress local;
  std::optional<ConnectionAddress> remote;  // once connected
  std::uint64_t max_message_bytes = 0;
  unsigned unacknowledged_events = 0;
  bool armed = false;
};

}  // namespace hbmwire::detail
