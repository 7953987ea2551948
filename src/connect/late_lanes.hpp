// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hbmwire/low_level/connection.hpp"

#include "wire/control_messages.hpp"
#include "wire/endpoint_offer.hpp"

namespace hbmwire {
class RemoteKey;
struct EndpointOptions;
}  // namespace hbmwire

namespace hbmwire::detail {

struct EndpointState;
struct RemoteRegionState;
struct WorkerNic;
struct WorkerState;

/// The queue pairs of an endpoint that was connected without them. That is done if the peer is
/// another process of this node, since most operations between two such ends need no queue pair.
/// When an end first has an operation that only a NIC can carry, it makes its queue pairs and tells
/// the other end, which does the same. An end posts once the other end has wired its own up
/// (docs/endpoint-protocol.md). Requests wait in the endpoint's queue until then.
class LateLanes {
 public:
  explicit LateLanes(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  LateLanes(const LateLanes&) = delete;
  LateLanes& operator=(const LateLanes&) = delete;
  ~LateLanes() = default;

  /// Begins the endpoint without queue pairs. `further`: NICs for rails. Errors: as
  /// RailMover::create().
  Result<void> begin(std::span<WorkerNic* const> further);

  /// Whether the endpoint began without queue pairs.
  [[nodiscard]] bool are_late() const noexcept { return late_; }

  /// Completes an offer without queue pairs: adds the ports of the rails.
  void offer(wire::EndpointOffer& own) const;

  /// Takes the peer's offer without queue pairs. May throw std::bad_alloc.
  void connect(const wire::EndpointOffer& theirs);

  /// Notes the keys by which the further NICs reach the peer's memory, while there is no RailMover
  /// to do that.
  void set_keys(RemoteRegionState& region, const RemoteKey& key) const;

  /// Asks for the queue pairs, since a request waits for them: makes them, unless that is done, and
  /// tells the peer. If they cannot be made, the endpoint fails.
  void need() noexcept;

  /// need() before a request waits for them. Does nothing once the peer has said goodbye.
  void expect_need() noexcept;

  /// Whether a request waits for the peer's answer.
  [[nodiscard]] bool wait_for_peer() const noexcept { return needed_since_ && !is_open(); }

  /// Whether a request has waited for longer than `bound`.
  [[nodiscard]] bool wait_longer_than(std::chrono::nanoseconds bound,
                                      std::chrono::steady_clock::time_point now) const noexcept {
    return wait_for_peer() && now - *needed_since_ > bound;
  }

  /// The peer has made its queue pairs, or has wired them up.
  void on(const wire::QueuePairs& message);
  void on_ready() noexcept;

 private:
  [[nodiscard]] bool is_open() const noexcept { return wired_ && peer_ready_; }

  void make_or_fail() noexcept;
  Result<void> make();
  [[nodiscard]] bool is_as_told(const wire::EndpointOffer& now) const noexcept;
  Result<void> wire_up(const wire::EndpointOffer& theirs);
  void open() noexcept;

  EndpointState& endpoint_;
  std::vector<WorkerNic*> further_;  // NICs for rails
  std::vector<ConnectionAddress> our_rails_;
  std::vector<ConnectionAddress> their_rails_;  // until there is a RailMover
  std::optional<std::chrono::steady_clock::time_point> needed_since_;
  bool late_ = false;        // are_late()
  bool made_ = false;        // make() was called
  bool heard_ = false;       // the peer has told of its queue pairs
  bool wired_ = false;       // this end's queue pairs are wired up
  bool peer_ready_ = false;  // the peer's queue pairs are wired up
};

/// The value that an endpoint of `worker` with `options` puts into its greeting, so that it can
/// begin without queue pairs. 0: it cannot, or must not use shared memory.
[[nodiscard]] std::uint32_t whereabouts_for(WorkerState& worker, const EndpointOptions& options);

}  // namespace hbmwire::detail
