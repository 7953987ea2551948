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
}  // namespace hbmwire

namespace hbmwire::detail {

struct EndpointState;
struct RemoteRegionState;
struct WorkerNic;
class WorkerState;

/// The queue pairs of an endpoint that was connected without them, its peer being another process
/// of this node: most of what two such ends do needs none. Whichever end first has something that
/// only a NIC can do makes its own and tells the other, which does the same; an end posts once the
/// other one has wired its own up (docs/endpoint-protocol.md). Requests wait in the endpoint's
/// queue until then.
class LateLanes {
 public:
  explicit LateLanes(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  LateLanes(const LateLanes&) = delete;
  LateLanes& operator=(const LateLanes&) = delete;
  ~LateLanes() = default;

  /// The endpoint begins without queue pairs. `further`: NICs for rails. Errors: as
  /// RailMover::create().
  Result<void> begin(std::span<WorkerNic* const> further);

  /// It began so.
  [[nodiscard]] bool are_late() const noexcept { return late_; }

  /// Makes an offer without queue pairs of one that lacks them: with the ports of the rails.
  void offer(wire::EndpointOffer& own) const;

  /// The peer's offer without queue pairs. May throw std::bad_alloc.
  void connect(const wire::EndpointOffer& theirs);

  /// As RailMover::set_keys(), as long as there is no RailMover.
  void set_keys(RemoteRegionState& region, const RemoteKey& key) const;

  /// Something waits for them: makes them, if that is not done, and tells the peer. The endpoint
  /// fails where they can't be made.
  void need() noexcept;

  /// The same, before anything waits for them.
  void expect_need() noexcept;

  /// Something waits for the peer's word.
  [[nodiscard]] bool wait_for_peer() const noexcept { return needed_since_ && !is_open(); }

  /// ... and has done so for longer than `bound`.
  [[nodiscard]] bool wait_longer_than(std::chrono::nanoseconds bound,
                                      std::chrono::steady_clock::time_point now) const noexcept {
    return wait_for_peer() && now - *needed_since_ > bound;
  }

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
  std::vector<WorkerNic*> further_;
  std::vector<ConnectionAddress> our_rails_;
  std::vector<ConnectionAddress> their_rails_;  // until there is a RailMover
  std::optional<std::chrono::steady_clock::time_point> needed_since_;
  bool late_ = false;
  bool made_ = false;
  bool heard_ = false;
  bool wired_ = false;
  bool peer_ready_ = false;
};

/// What an endpoint of `worker` with `options` says in its greeting, so that it can begin without
/// queue pairs; 0: it can't, or is not to use shared memory.
[[nodiscard]] std::uint32_t whereabouts_for(WorkerState& worker, const EndpointOptions& options);

}  // namespace hbmwire::detail
