// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <variant>

#include "hbmwire/counters.hpp"
#include "hbmwire/transfer.hpp"

#include "base/internals.hpp"
#include "mover/mover.hpp"
#include "mover/payload.hpp"
#include "transport/lane.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct RegionState;
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
  /// All of it: from the lowest bit 32 of `connection`, 16 of `record`, 4 each of the peer's path
  /// and type of memory, of `path` and of `protocol`.
  [[nodiscard]] std::uint64_t way() const noexcept { return std::bit_cast<std::uint64_t>(*this); }

  std::uint32_t connection = 0;  // EndpointState::number, whose label tells of NIC and peer
  std::uint16_t record = 0;      // PathRecord::number of this side's memory; 0: it has none
  RemoteSide remote = kUnknownRemote;
  Path path : 4 = Path::host;
  Protocol protocol : 4 = Protocol::direct;
};

static_assert(sizeof(Route) == sizeof(std::uint64_t));

/// Bits of TransferMarks::at_end.
struct AtEnd {
  static constexpr std::uint8_t kFetch = 1;    // its value comes from WorkerState's results
  static constexpr std::uint8_t kTell = 2;     // Worker::next_done() tells of it, and has not yet
  static constexpr std::uint8_t kTime = 4;     // TransferPool::times_of() has its times
  static constexpr std::uint8_t kPart = 8;     // of another transfer, whose index is `cookie`
  static constexpr std::uint8_t kSample = 16;  // its time is counted (TransferCounts)
  static constexpr std::uint8_t kTrace = 32;   // TransferPool::trace() has its times, and is told
};

/// The part of a transfer that begins anew with each operation.
struct TransferMarks {
  using Then = detail::Then;

  bool settled = true;      // of a failed one
  bool waiting = false;     // in its endpoint's PendingQueue, since not all of it is begun
  bool moved = false;       // `mover` and `payload` are this operation's
  bool receives = false;    // waits in a list for its message, and in no queue
  std::uint8_t at_end = 0;  // AtEnd: more is to be done then than most need
  bool tagged = false;      // of messages
  bool answered = false;    // of a send: its receiver has to say something
  Then then = Then::over;
};

/// An operation from its start until its handle has gone. A worker has a fixed number of them. What
/// the data path touches comes first, in one cache line.
struct alignas(64) TransferState : TransferMarks, Route {
  enum class Status : std::uint8_t { free, active, succeeded, failed };

  [[nodiscard]] bool is_over() const noexcept { return status != Status::active; }

  /// TransferPool::times_of() is its own.
  [[nodiscard]] bool is_timed() const noexcept {
    return (at_end & (AtEnd::kTime | AtEnd::kSample)) != 0;
  }

  Status status = Status::free;
  bool held = false;     // by a Transfer
  bool guarded = false;  // let go of it with care (let_go_with_care())
  TransferKind kind = TransferKind::put;
  std::uint32_t parts = 0;            // begun and not over; 0 and not waiting: it is over
  TransferState* next = nullptr;      // in a list of those that wait, or of the free ones
  EndpointState* endpoint = nullptr;  // while it is active; else null, or what it was
  std::uint64_t bytes = 0;

  WorkerState* worker = nullptr;
  std::uint64_t value = 0;
  std::uint64_t cookie = 0;  // of AtEnd::kTell, or kPart

  // While it waits, and until it is visible here.
  transport::Operation operation;
  Mover* mover = nullptr;
  Payload payload;

  // Of messages.
  std::uint32_t id = 0;       // this end's, in one of Rendezvous' Slots
  std::uint32_t peer_id = 0;  // of the other end
  std::uint64_t tag = 0;
  std::uint64_t mask = 0;
  const RegionState* region = nullptr;  // of its own memory; null: none

  /// An operation of `length_bytes` begins: of `of`, or null where it is the worker's.
  void begin(EndpointState* of, TransferKind kind_of, std::uint64_t length_bytes) noexcept {
    endpoint = of;
    kind = kind_of;
    bytes = length_bytes;
    parts = 0;
    status = Status::active;
  }

  /// This side's memory, as a message tells the peer of it.
  [[nodiscard]] RemoteSide own_side() const noexcept {
    if (region == nullptr) return remote_side(MemoryType::host, Path::host);
    return remote_side(region->paths->type,
                       path == Path::staged ? path : std::min(region->path, Path::staged));
  }

  /// The peer has told of its memory.
  void learn_remote(RemoteSide side) noexcept {
    remote = side;
    path = std::max(path, path_of(side));
  }

  /// As Mover::flush_next().
  bool flush_next() noexcept { return moved && mover != nullptr && mover->flush_next(*this); }

  /// Has `by` drive it.
  template <class P = std::monostate>
  P& move_by(Mover& by, P what = {}) noexcept {
    moved = true;
    mover = &by;
    return payload.template emplace<P>(what);
  }

  /// Has its message brought to device memory, which no queue waits for.
  void carry(UnexpectedMessage& message) noexcept {
    moved = true;
    mover = nullptr;
    payload = Message{&message};
  }

  /// Its mover's payload; null: it is of no such kind.
  template <class P>
  [[nodiscard]] P* as() noexcept {
    return moved ? std::get_if<P>(&payload) : nullptr;
  }

  template <class P>
  [[nodiscard]] const P* as() const noexcept {
    return moved ? std::get_if<P>(&payload) : nullptr;
  }
};

}  // namespace hbmwire::detail
