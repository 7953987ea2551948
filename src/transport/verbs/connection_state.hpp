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

// 1 GiB: messages are never longer, even if the port allows it. This is far from the limit of
// ibv_sge's 32-bit length.
inline constexpr std::uint64_t kMaxMessageBytes = 1ULL << 30;

/// One work request for the send queue.
struct Work {
  std::uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  Slice slice;
  RemoteMemory remote{};
  std::uint32_t immediate = 0;
  const char* call = "";  ///< named in its error
};

/// The objects of a connection, destroyed in reverse order: queue pair, completion queue, channel,
/// device.
struct ConnectionState {
  static Result<std::unique_ptr<ConnectionState>> create(const Nic& nic,
                                                         const Connection::Options& options);
  ConnectionState() = default;
  ConnectionState(const ConnectionState&) = delete;
  ConnectionState& operator=(const ConnectionState&) = delete;
  ~ConnectionState();

  /// See Connection::connect().
  Result<void> connect(const ConnectionAddress& to);

  Result<void> post(const Work& work) const;

  /// Returns one completion, or no value if there is none yet. A failed completion is an error.
  [[nodiscard]] Result<std::optional<Completion>> poll() const;

  /// The scatter/gather element of a slice; all zero for an empty slice. Errors: the slice exceeds
  /// its region, its region is not registered with this NIC, or this is a child by fork(2).
  [[nodiscard]] Result<ibv_sge> to_sge(const Slice& slice, const char* call) const;

  /// Requests an event for the next completion, unless one is requested already.
  Result<void> arm();

  /// Sleeps until the channel has an event (returns true), or `also_fd` is readable (false).
  [[nodiscard]] Result<bool> sleep(const Wait& wait, int also_fd) const;

  /// Reads the event that made the channel readable. The queue must be armed again after that.
  Result<void> take_event();

  std::shared_ptr<NicState> nic;
  verbs::CompletionChannel channel;
  verbs::Cq cq;
  verbs::Qp qp;
  LinkOptions link;
  verbs::PortEntries entries;
  ConnectionAddress local;
  std::optional<ConnectionAddress> remote;  // set when connected
  std::uint64_t max_message_bytes = 0;
  unsigned unacknowledged_events = 0;
  bool armed = false;
};

}  // namespace hbmwire::detail
