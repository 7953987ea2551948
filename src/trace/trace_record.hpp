// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

#include "hbmwire/error.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/transfer.hpp"

namespace hbmwire::detail {

/// The reason why a transfer could not be posted at once. If it waited only for other transfers of
/// its endpoint, their records tell why those waited.
enum class WaitedFor : std::uint8_t {
  nothing,
  room,     ///< the send queue was full
  order,    ///< other transfers of its endpoint were waiting already
  fence,    ///< the fence had not been reached
  mover,    ///< a mover carries it (engine, staging, several NICs, the peer's process)
  credit,   ///< the peer had granted no credit for a message
  lanes,    ///< the endpoint had no queue pairs yet
  message,  ///< a receive: its message had not come
};

/// The times of a transfer that is under way, in nanoseconds of the steady clock.
struct TraceSlot {
  std::int64_t asked_ns = 0;
  std::int64_t posted_ns = 0;  // of a receive: when its message came; 0: still waiting
  WaitedFor waited_for = WaitedFor::nothing;
};

/// A finished transfer, as its worker passes it to the thread that writes the trace. All texts are
/// static.
struct TraceRecord {
  TraceSlot times = {};
  std::int64_t over_ns = 0;
  std::uint64_t bytes = 0;
  const char* kind = "";  // the kind of operation
  const char* by = "";    // the mover or task; empty: one request of the NIC
  const char* call = "";  // the call that failed; empty: none
  std::int32_t error_number = 0;
  std::uint32_t connection = 0;   // EndpointState::number; 0: the worker's own
  std::uint16_t path_record = 0;  // PathRecord::number; 0: no memory of this side
  std::uint8_t remote_type = 0;   // MemoryType, or kUnknownType
  Path path = Path::host;
  Protocol protocol = Protocol::direct;
  bool failed = false;
  Errc code = Errc::system;
  Stage stage = Stage::configure;
  NumberKind number_kind = NumberKind::none;
  Hint hint = Hint::none;

  static constexpr std::uint8_t kUnknownType = 0xff;
};

static_assert(std::is_trivially_copyable_v<TraceRecord>);

}  // namespace hbmwire::detail
