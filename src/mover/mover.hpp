// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "hbmwire/buffer.hpp"
#include "hbmwire/counters.hpp"
#include "hbmwire/endpoint.hpp"

#include "endpoint/remote_region_state.hpp"
#include "registration/region_state.hpp"
#include "transport/lane.hpp"

namespace hbmwire::wire {
struct MessageHeader;
}

namespace hbmwire::detail {

struct EndpointState;
struct TransferState;

/// The bytes of one put or get. Both slices were checked: they lie within existing memory, and have
/// one length.
struct Move {
  [[nodiscard]] const RegionState& local() const noexcept { return state_of(*here.region); }

  [[nodiscard]] const RemoteRegionState& distant() const noexcept {
    return RemoteRegionState::of(*there.region);
  }

  [[nodiscard]] TransferKind kind() const noexcept {
    return gets ? TransferKind::get : TransferKind::put;
  }

  const Slice& here;
  const RemoteSlice& there;
  bool gets = false;
  bool tells = false;  // a put with an immediate
};

/// A way of moving bytes that one request of the endpoint's NIC cannot move.
///
/// MoverTable asks each mover whether it takes a put or get. The one that does prepares with
/// start(), and the transfer joins its endpoint's PendingQueue. At the head of the queue, advance()
/// drives it until it has begun completely, or is over. Then it leaves the queue, and finish()
/// tells the mover. Work that goes on after that is counted in TransferState::parts.
///
/// A mover counts all its work as EndpointMovers::moving: no failure is reported before it is over.
/// An engine does not signal its end; its work also counts as WorkerState::staged, and progress()
/// polls it.
class Mover {
 public:
  Mover() = default;
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  virtual ~Mover() = default;

  /// Whether this mover carries these bytes.
  [[nodiscard]] virtual bool takes(const EndpointState& /*endpoint*/, const Move& /*move*/) const {
    return false;
  }

  /// Between two plain paths (PathRules) it is asked only about this many bytes or more. ~0: it is
  /// never asked there.
  [[nodiscard]] virtual std::uint64_t asked_from() const noexcept { return ~std::uint64_t{0}; }

  /// Whether NICs carry the bytes at least in part, so that the memory must be checked as for a
  /// plain request.
  [[nodiscard]] virtual bool needs_nic(const EndpointState& /*endpoint*/,
                                       const Move& /*move*/) const {
    return true;
  }

  /// Takes a transfer for which takes() is true: sets its payload, path and protocol, and
  /// TransferState::then. Begins nothing. Errors: there is no room for it.
  virtual Result<void> start(TransferState& /*transfer*/, transport::Operation& /*operation*/,
                             const Move& /*move*/) {
    return {};
  }

  /// Does whatever can be done now. True: the transfer has begun completely, or is over,
  /// successfully or not.
  virtual bool advance(TransferState& transfer) noexcept = 0;

  /// The transfer has left the queue. False: the mover did not move it.
  virtual bool finish(TransferState& /*transfer*/) noexcept { return true; }

  /// The transfer is taken out of the queue, since its endpoint has failed.
  virtual void abandon(TransferState& /*transfer*/) noexcept {}

  /// Makes bytes of a get visible to this end's device, by one more request. False: only
  /// TransferState::operation is left to be made visible, or nothing is.
  virtual bool flush_next(TransferState& /*transfer*/) noexcept { return false; }

  /// The peer has answered ProxiedMover::ask(). False: the peer was not asked.
  virtual bool on_answer(TransferState& /*transfer*/,
                         const wire::MessageHeader& /*answer*/) noexcept {
    return false;
  }

  /// The endpoint ends: transfers that wait for the peer's answer need not wait any more.
  virtual void cancel(EndpointState& /*endpoint*/) noexcept {}

  /// Polls engines. Returns the number of events.
  virtual std::size_t progress() noexcept { return 0; }

  /// Waits for the engines; transfers that are here fail with `why`.
  virtual void drain(const Error& /*why*/) noexcept {}
};

}  // namespace hbmwire::detail
