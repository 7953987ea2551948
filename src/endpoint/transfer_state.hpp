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

/// Type and path of the memory at the other end of a transfer, in a byte.
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

/// How a transfer goes, or went: one word, which the data path writes in one store.
struct Route {
  /// The whole word. From the lowest bit on: 32 bits of `connection`, 16 of `record`, and 4 each of
  /// the peer's path and memory type, of `path` and of `protocol`.
  [[nodiscard]] std::uint64_t way() const noexcept { return std::bit_cast<std::uint64_t>(*this); }

  std::uint32_t connection = 0;  // EndpointState::number; its label has NIC and peer
  std::uint16_t record = 0;      // PathRecord::number of this side's memory; 0: it has none
  RemoteSide remote = kUnknownRemote;
  Path path : 4 = Path::host;
  Protocol protocol : 4 = Protocol::direct;
};

static_assert(sizeof(Route) == sizeof(std::uint64_t));

/// Bits of TransferMarks::at_end.
struct AtEnd {
  static constexpr std::uint8_t kFetch = 1;    // its value comes from WorkerState's results
  static constexpr std::uint8_t kTell = 2;     // Worker::next_done() must still tell of it
  static constexpr std::uint8_t kTime = 4;     // TransferPool::times_of() has its times
  static constexpr std::uint8_t kPart = 8;     // a part of another transfer, whose index is
                                               // `cookie`
  static constexpr std::uint8_t kSample = 16;  // its time is counted (TransferCounts)
  static constexpr std::uint8_t kTrace = 32;   // TransferPool::trace() has its times, and is told
                                               // of its end
};

/// Fields that are reset for every operation.
struct TransferMarks {
  using Then = detail::Then;

  bool settled = true;      // of a failed transfer
  bool waiting = false;     // in its endpoint's PendingQueue, since it has not begun completely
  bool moved = false;       // `mover` and `payload` belong to this operation
  bool receives = false;    // waits in a list for its message, and in no queue
  std::uint8_t at_end = 0;  // AtEnd: its end needs these extra steps
  bool tagged = false;      // for messages
  bool answered = false;    // a send that its receiver has to answer
  Then then = Then::over;
};

/// An operation from its start until its handle has gone. A worker has a fixed number of them. The
/// members that the data path touches come first, in one cache line.
struct alignas(64) TransferState : TransferMarks, Route {
  enum class Status : std::uint8_t { free, active, succeeded, failed };

  [[nodiscard]] bool is_over() const noexcept { return status != Status::active; }

  /// Whether its times are taken: TransferPool::times_of() belongs to it.
  [[nodiscard]] bool is_timed() const noexcept {
    return (at_end & (AtEnd::kTime | AtEnd::kSample)) != 0;
  }

  Status status = Status::free;
  bool held = false;     // by a Transfer
  bool guarded = false;  // its handle goes by let_go_with_care()
  TransferKind kind = TransferKind::put;
  std::uint32_t parts = 0;            // begun and not over; the transfer is over when this is 0 and
                                      // it does not wait
  TransferState* next = nullptr;      // in a list of waiting transfers, or of free ones
  EndpointState* endpoint = nullptr;  // its endpoint while it is active; later null, or its old
                                      // value
  std::uint64_t bytes = 0;

  WorkerState* worker = nullptr;
  std::uint64_t value = 0;
  std::uint64_t cookie = 0;  // for AtEnd::kTell, or kPart

  // Used while it waits, and until its bytes are visible here.
  transport::Operation operation;
  Mover* mover = nullptr;
  Payload payload;

  // For messages.
  std::uint32_t id = 0;       // this end's number, in one of Rendezvous' Slots
  std::uint32_t peer_id = 0;  // the other end's number
  std::uint64_t tag = 0;
  std::uint64_t mask = 0;
  const RegionState* region = nullptr;  // of its own memory; null: it has none

  /// Begins an operation of `length_bytes`. `of`: its endpoint; null if it belongs to the worker.
  void begin(EndpointState* of, TransferKind kind_of, std::uint64_t length_bytes) noexcept {
    endpoint = of;
    kind = kind_of;
    bytes = length_bytes;
    parts = 0;
    status = Status::active;
  }

  /// This side's memory, in the form that a message carries to the peer.
  [[nodiscard]] RemoteSide own_side() const noexcept {
    if (region == nullptr) return remote_side(MemoryType::host, Path::host);
    // The peer need not know how this process moves memory that no NIC reaches.
    return remote_side(region->paths->type,
                       path == Path::staged ? path : std::min(region->path, Path::staged));
  }

  /// Notes type and path of the peer's memory, as the peer has told.
  void learn_remote(RemoteSide side) noexcept {
    remote = side;
    path = std::max(path, path_of(side));
  }

  /// Mover::flush_next() of its mover; false if it has none.
  bool flush_next() noexcept { return moved && mover != nullptr && mover->flush_next(*this); }

  /// Lets `by` drive the transfer.
  template <class P = std::monostate>
  P& move_by(Mover& by, P what = {}) noexcept {
    moved = true;
    mover = &by;
    return payload.template emplace<P>(what);
  }

  /// Lets its message be carried to device memory. It waits in no queue for that.
  void carry(UnexpectedMessage& message) noexcept {
    moved = true;
    mover = nullptr;
    payload = Message{&message};
  }

  /// The payload of its mover; null: its payload is of another type.
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
