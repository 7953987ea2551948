// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/transfer.hpp"

#include "transport/lane.hpp"

namespace hbmwire::detail {

struct UnexpectedMessage;
struct EndpointState;
struct RegionState;
struct RequestState;
struct WorkerState;

/// What is known of the memory at the other end of a transfer: type and path, in a byte.
using RemoteSide = std::uint8_t;

inline constexpr RemoteSide kUnknownRemote = 0xff;

[[nodiscard]] inline RemoteSide remote_side(MemoryType type, Path path) noexcept {
  return static_cast<RemoteSide>(static_cast<unsigned>(type) << 4U | static_cast<unsigned>(path));
}

[[nodiscard]] inline MemoryType type_of(RemoteSide side) noexcept {
  return static_cast<MemoryType>(side >> 4U);
}

[[nodiscard]] inline Path path_of(RemoteSide side) noexcept {
  return static_cast<Path>(side & 15U);
}

/// What a transfer tells of its way, over or not: one word, which the data path writes as it has
/// found it once.
struct Route {
  std::uint32_t connection = 0;  // EndpointState::number, whose label tells of NIC and peer
  std::uint16_t record = 0;      // PathRecord::number of this side's memory; 0: it has none
  RemoteSide remote = kUnknownRemote;
  Path path : 4 = Path::host;
  Protocol protocol : 4 = Protocol::direct;
};

static_assert(sizeof(Route) == sizeof(std::uint64_t));

/// The part of a transfer that begins anew with each operation.
struct TransferMarks {
  /// The step that comes when the last of its parts is over.
  enum class Then : std::uint8_t {
    over,
    flush,         ///< what NICs wrote is made visible to the device; over
    flush_answer,  ///< the same; then the sender is told
    answer,        ///< the sender of a message is told that it was taken; over
    release,       ///< its message was carried to the device: given back, the sender told; over
    fail,          ///< it has failed alone, by the worker's error of it
  };

  /// The way that is still ahead of one that waits.
  enum class Kind : std::uint8_t {
    one_sided,
    prepared,
    send,
    staged,   ///< with StagedMover, or waits for that
    proxied,  ///< with the peer's process, or waits for that
    copied,   ///< with CopyMover, or waits for that: by an engine of this process or the peer's
    railed,   ///< with RailMover, or waits for that
    receive,  ///< waits in a list for its message, and in no queue; matched: one_sided
  };

  bool settled = true;    // of a failed one
  bool waiting = false;   // in its endpoint's queue, since not all of it is posted
  bool fetches = false;   // its value comes from its place in WorkerState's results
  bool tagged = false;    // of messages
  bool answered = false;  // of a send: its receiver has to say something
  Then then = Then::over;
  Kind kind = Kind::one_sided;
};

/// An operation from its start until its handle has gone. A worker has a fixed number of them. What
/// the data path touches comes first, in one cache line.
struct alignas(64) TransferState : TransferMarks, Route {
  enum class Status : std::uint8_t { free, active, succeeded, failed };

  [[nodiscard]] bool is_over() const noexcept { return status != Status::active; }

  Status status = Status::free;
  bool held = false;                  // by a Transfer
  bool guarded = false;               // its worker has a lock, or has gone: look at that first
  std::uint32_t parts = 0;            // begun and not over; 0 and not waiting: it is over
  TransferState* next = nullptr;      // in a list of those that wait, or of the free ones
  EndpointState* endpoint = nullptr;  // while it is active; else null, or what it was
  std::uint64_t bytes = 0;

  WorkerState* worker = nullptr;
  std::uint64_t value = 0;

  // While it waits: what is still to be posted.
  transport::Operation operation;
  RequestState* request = nullptr;  // of a prepared one, instead
  std::uint32_t request_at = 0;

  // Of messages.
  std::uint32_t id = 0;       // this end's, in one of Mailbox's Slots
  std::uint32_t peer_id = 0;  // of the other end
  std::uint64_t tag = 0;
  std::uint64_t mask = 0;
  const RegionState* region = nullptr;   // of its own memory; null: none
  UnexpectedMessage* message = nullptr;  // that is being carried to the device

  /// Of one that goes by IPC: how it goes where that can't be.
  struct Fallback {
    bool possible = false;
    bool flushed = false;  // Operation::flushed
    Kind kind = Kind::one_sided;
    Then then = Then::over;
    Path path = Path::host;
    Protocol protocol = Protocol::direct;
  };

  Fallback fallback = {};
};

}  // namespace hbmwire::detail
