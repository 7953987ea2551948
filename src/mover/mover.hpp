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

/// The bytes of one put or get. Both slices were checked: they lie within memory that is there, and
/// are of one length.
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

/// A way of moving bytes that one request of the endpoint's NIC does not move.
///
/// MoverTable asks each one whether it takes a put or get. The one that does notes with start()
/// what it needs, and the transfer joins its endpoint's PendingQueue. At the head of the queue it
/// is driven by advance() until all of it is begun, or over; it leaves the queue, and the mover is
/// told by finish(). All that goes on behind that is counted in TransferState::parts.
///
/// A mover counts all that it has under way as EndpointState::moving: nothing is reported before it
/// is over. One of a device's engine, of which nothing tells by itself, counts as
/// WorkerState::staged, too, and is asked by progress().
class Mover {
 public:
  Mover() = default;
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  virtual ~Mover() = default;

  /// Whether it carries these bytes.
  [[nodiscard]] virtual bool takes(const EndpointState& /*endpoint*/, const Move& /*move*/) const {
    return false;
  }

  /// It is not asked about fewer bytes between two plain paths (PathRules). ~0: it never is.
  [[nodiscard]] virtual std::uint64_t asked_from() const noexcept { return ~std::uint64_t{0}; }

  /// Whether NICs carry a part of the way, which has to be checked as for a plain request.
  [[nodiscard]] virtual bool needs_nic(const EndpointState& /*endpoint*/,
                                       const Move& /*move*/) const {
    return true;
  }

  /// Takes over what it takes(): sets TransferState's payload, path and protocol, and what comes
  /// then. Nothing is begun. Errors: there is no room for it.
  virtual Result<void> start(TransferState& /*transfer*/, transport::Operation& /*operation*/,
                             const Move& /*move*/) {
    return {};
  }

  /// Does what can be done now. True: all of it is begun, or it is over, well or not.
  virtual bool advance(TransferState& transfer) noexcept = 0;

  /// It has left the queue. False: it was not moved.
  virtual bool finish(TransferState& /*transfer*/) noexcept { return true; }

  /// It is taken out of the queue, since its endpoint has failed.
  virtual void abandon(TransferState& /*transfer*/) noexcept {}

  /// Makes visible to this end's device what a get has brought by one more request. False: there
  /// is nothing but TransferState::operation to be made visible, or all of it is.
  virtual bool flush_next(TransferState& /*transfer*/) noexcept { return false; }

  /// The peer's word of what it was asked for (ProxiedMover::ask()). False: it was not.
  virtual bool on_answer(TransferState& /*transfer*/,
                         const wire::MessageHeader& /*answer*/) noexcept {
    return false;
  }

  /// The endpoint ends: what waits for its peer's word need not do so any more.
  virtual void cancel(EndpointState& /*endpoint*/) noexcept {}

  /// Asks engines how far they are. The number of things that happened.
  virtual std::size_t progress() noexcept { return 0; }

  /// Waits for the engines; what is here fails with `why`.
  virtual void drain(const Error& /*why*/) noexcept {}
};

}  // namespace hbmwire::detail
