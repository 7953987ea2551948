// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"

#include "connect/cm_link.hpp"
#include "connect/endpoint_wiring.hpp"
#include "endpoint/control_lane.hpp"
#include "endpoint/ending.hpp"
#include "endpoint/path_rules.hpp"
#include "endpoint/peer_watch.hpp"
#include "endpoint/pending_queue.hpp"
#include "endpoint/prepared_lists.hpp"
#include "endpoint/remote_regions.hpp"
#include "endpoint/request_state.hpp"
#include "endpoint/send_queue.hpp"
#include "endpoint/slice_checks.hpp"
#include "endpoint/tcp_user.hpp"
#include "endpoint/transfer_state.hpp"
#include "endpoint/worker_state.hpp"
#include "message/messages.hpp"
#include "mover/endpoint_movers.hpp"
#include "registration/region_state.hpp"
#include "transport/lane_datapath.hpp"
#include "wire/control_messages.hpp"
#include "wire/endpoint_offer.hpp"

namespace hbmwire::detail {

/// Checks whether an endpoint of `worker` may have `options`. Errors: Stage::configure.
Result<void> check_options(const EndpointOptions& options, const WorkerState& worker);

/// One end of a connection: its parts, and the operations that need several of them
/// (ARCHITECTURE.md).
struct EndpointState : std::enable_shared_from_this<EndpointState> {
  using Clock = WorkerState::Clock;

  // --- life cycle (endpoint_state.cpp)

  /// Makes an endpoint with its lanes on the first of `nics`, and its rails on the others. `late`:
  /// queue pairs are made when they are needed (LateLanes).
  static Result<std::shared_ptr<EndpointState>> create(const std::shared_ptr<WorkerState>& worker,
                                                       const EndpointOptions& options,
                                                       std::span<WorkerNic* const> nics,
                                                       bool late = false);
  EndpointState(WorkerState& its_worker, WorkerNic& first_nic, EndpointOptions its_options);
  EndpointState(const EndpointState&) = delete;
  EndpointState& operator=(const EndpointState&) = delete;
  ~EndpointState();

  /// Breaks the connection: from here on it is ending. `culprit` (or null) fails with `error`, the
  /// other transfers with Ending::error_of_others().
  void fail(const Error& error, TransferState* culprit) noexcept;

  /// Makes transfers fail that wait for room or for the peer.
  void fail_waiting() noexcept;

  /// Forgets all posted requests, since none of them will complete any more.
  void forget_posted() noexcept;

  /// Whether operations of the application are under way.
  [[nodiscard]] bool is_busy() const noexcept;

  /// Whether something is under way that only the peer's process can end.
  [[nodiscard]] bool waits_for_peer() const noexcept;

  /// Why no operation can be started.
  [[nodiscard]] Error not_ready() const noexcept { return ending.not_ready(); }

  /// Continues ending, and does what the clock asks for. Returns the time of the next call.
  Clock::time_point look_after(Clock::time_point at) noexcept;

  /// The time of the next look_after(), after everything that is due at `at` was done.
  [[nodiscard]] Clock::time_point next_look(Clock::time_point at) const noexcept;

  /// `queue` is lost: no more of its completions will come.
  void on_lost(const transport::CompletionQueue& queue) noexcept;

  /// Whether it can be destroyed: the application has let go of it, and no queue holds anything of
  /// it.
  [[nodiscard]] bool gone() const noexcept {
    return ending.is_over() && sends.outstanding() == 0 && movers.moving == 0 &&
           messages.receives().none_posted() && messages.none_handed_out() &&
           control.is_drained() && ending.are_receives_back();
  }

  // --- operations (endpoint_state_datapath.cpp)

  Result<Transfer> put(const Slice& from, const RemoteSlice& to, const PutOptions& put_options);
  Result<Transfer> get(const Slice& into, const RemoteSlice& from);
  Result<Transfer> atomic(const RemoteSlice& at, transport::Operation operation);
  Result<Transfer> flush();

  /// Sets the route of a transfer, but for its protocol. A null region: the memory does not exist
  /// or is unknown.
  void set_route(Route& way, const RegionState* local,
                 const RemoteRegionState* remote_region) const noexcept {
    const Path at_peer = remote_region == nullptr ? Path::host : remote_region->path;
    const Path here = local == nullptr ? Path::host : local->path;
    way.connection = number;
    way.record = local == nullptr ? std::uint16_t{0} : local->record;
    way.remote =
        remote_region == nullptr ? kUnknownRemote : remote_side(remote_region->type, at_peer);
    // The enumerators of Path are in order: of two paths of memory the later one is the worse.
    way.path = std::max(here, at_peer);
  }

  /// Whether the transfer's memory is a device's that NICs write, so that it needs a flush.
  [[nodiscard]] bool is_device(const TransferState& transfer) const noexcept {
    return transfer.region != nullptr && transfer.region->path != Path::host &&
           !paths.is_staged(transfer.region->path);
  }

  /// Whether the transfer's memory is a device's that this end's NIC does not reach.
  [[nodiscard]] bool is_staged(const TransferState& transfer) const noexcept {
    return transfer.region != nullptr && paths.is_staged(transfer.region->path);
  }

  /// Posts the immediate of a put whose bytes have arrived without a NIC. False: there is no room
  /// or no credit yet, or the endpoint has failed.
  bool post_immediate(TransferState& transfer) noexcept;

  /// Posts `operation`, or queues it if there is no room.
  [[gnu::always_inline]] inline Result<Transfer> start(transport::Operation& operation,
                                                       TransferState& transfer,
                                                       TransferKind kind) noexcept;

  /// Lets `mover` carry the operation once it is at the head of the queue. `by_nic`: the lane may
  /// have to carry a part of it (Way). Errors: as Mover::start(); nothing has begun then.
  Result<void> start_moved(Mover& mover, transport::Operation& operation, TransferState& transfer,
                           const Move& move, bool by_nic);

  /// Queues the operation behind others that wait.
  Transfer wait_in_queue(const transport::Operation& operation, TransferState& transfer) noexcept;

  /// Whether post_waiting() may have something to post: a transfer waits for room or for a mover,
  /// or the outbox has something to send.
  [[nodiscard]] bool has_waiting() const noexcept { return !pending.empty() || pressing; }

  /// Posts waiting transfers, in their order, as far as that is possible now.
  void post_waiting() noexcept;

  /// Requests of the data lane have completed.
  void on_posted(Posted& posted) noexcept;

  /// A request of `posted` has failed. `last`: it is the last one, so that all of them are over.
  void on_failed(const Posted& posted, const transport::Completion& completion, bool last) noexcept;

  /// A part of `transfer` is over because of a failure. Null: the library's own request.
  void give_up(TransferState* transfer) noexcept;

  /// All parts of a transfer are over: does the next step that the transfer needs
  /// (TransferState::then), or ends it.
  void go_on(TransferState& transfer) noexcept;

  /// A mover has finished its part of the transfer.
  void on_moved(TransferState& transfer) noexcept;

  /// Makes the handle of a transfer that has begun.
  [[nodiscard]] Transfer hand_out(TransferState& transfer) noexcept;

  // --- used by its parts

  /// The peer's NIC has taken a control message of this end.
  void on_said() noexcept;

  /// The control lane is dead because of `why`.
  void on_control_lost(const Error& why) noexcept;

  /// The error of a peer that broke the protocol.
  [[nodiscard]] Error broken_protocol(const char* why) const noexcept;

  /// Makes the endpoint fail because the peer broke the protocol.
  void break_protocol(const char* why) noexcept;

  /// Notes an event that threads may wait for.
  void note_event() noexcept {
    ++worker->event_count;
    look_soon();
  }

  /// Makes the worker's next tick look after this endpoint.
  void look_soon() noexcept { worker->endpoints.look_earlier(*this, worker->now); }

  /// The error of a failed ibv_post_send(3).
  [[nodiscard]] Error post_error(int result) const noexcept {
    return transport::post_error(result, nic->info.name);
  }

  /// Makes the endpoint fail with post_error(result); `transfer` is the culprit.
  void fail_post(int result, TransferState* transfer) noexcept {
    fail(post_error(result), transfer);
  }

  EndpointWiring wiring{*this};  // destroyed last: the lanes send from its memory

  // --- the data path. A put touches three cache lines of the members from here on. With a thousand
  // peers these lines are not in a cache, so a put waits for each of them.

  alignas(64) WorkerState* worker;
  counters::TrafficBlock* counts;  // its own from WorkerState::adopt() on; before, the worker's
  NicState* nic = nullptr;
  std::uint32_t number = 0;  // the number of this connection within the process,
                             // RemoteRegionState::connection
  EndpointPhase phase = EndpointPhase::ready;
  PathRules paths;
  bool pressing = false;  // the outbox has something to send before `pending`
  PendingQueue pending;
  SliceChecks checks{*this};
  SendQueue sends;
  EndpointMovers movers{*this};
  Messages messages;

  // --- everything else

  LookPlace look;  // in WorkerState::endpoints
  WorkerNic& worker_nic;
  EndpointOptions options;
  std::string peer;
  std::shared_ptr<WorkerState> keeps_worker;  // keeps the worker until the application lets go of
                                              // the endpoint
  bool dialed = false;                        // connected by Endpoint::connect(), so that
                                              // reconnect() can do it again

  ControlLane control{*this};
  PeerWatch watch{*this};
  Ending ending{*this};
  RemoteRegions remote_regions{*this};
  PreparedLists lists{*this};
  // Uses the socket of the handshake: for both lanes, or for the control lane alone. Null: a NIC
  // carries both.
  std::unique_ptr<transport::TcpLink> link;
};

/// Puts `transfer`, whose handle exists, behind the waiting ones, and posts what can be posted.
void enqueue(EndpointState& endpoint, TransferState& transfer) noexcept;

}  // namespace hbmwire::detail
