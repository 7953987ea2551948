// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

#include "hbmwire/error.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/transfer.hpp"

namespace hbmwire::detail {

/// Why a transfer could not be posted at once. Where it stood behind others of its endpoint, these
/// tell why they waited.
enum class WaitedFor : std::uint8_t {
  nothing,
  room,     ///< the send queue was full
  order,    ///< others of its endpoint waited already
  fence,    ///< the fence had not been reached
  mover,    ///< a mover carries it (engine, staging, several NICs, the peer's process)
  credit,   ///< the peer had given no place for a message
  lanes,    ///< the endpoint had no queue pairs yet
  message,  ///< a receive: no message had come for it
};

/// The times of a transfer that is under way, of the steady clock, in nanoseconds.
struct TraceSlot {
  std::int64_t asked_ns = 0;
  std::int64_t posted_ns = 0;  // of a receive: its message has come. 0: it waits
  WaitedFor waited_for = WaitedFor::nothing;
};

/// A transfer that is over, as its worker hands it to the thread that writes the trace. Texts are
/// static.
struct TraceRecord {
  TraceSlot times = {};
  std::int64_t over_ns = 0;
  std::uint64_t bytes = 0;
  const char* kind = "";  // of operation
  const char* by = "";    // the mover, or task; empty: one request of the NIC
  const char* call = "";  // of its error
  std::int32_t error_number = 0;
  std::uint32_t connection = 0;   // EndpointState::number; 0: it is the worker's
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
