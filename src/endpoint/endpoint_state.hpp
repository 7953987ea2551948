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

/// Whether an endpoint of `worker` may have `options`. Errors: Stage::configure.
Result<void> check_options(const EndpointOptions& options, const WorkerState& worker);

/// One end of a connection: its parts, and the operations that need several of them
/// (ARCHITECTURE.md).
struct EndpointState : std::enable_shared_from_this<EndpointState> {
  using Clock = WorkerState::Clock;

  // --- life (endpoint_state.cpp)

  /// Its lanes lie on the first of `nics`, its rails on the others. `late`: as
  /// EndpointWiring::make().
  static Result<std::shared_ptr<EndpointState>> create(const std::shared_ptr<WorkerState>& worker,
                                                       const EndpointOptions& options,
                                                       std::span<WorkerNic* const> nics,
                                                       bool late = false);
  EndpointState(WorkerState& worker_of, WorkerNic& nic_of, EndpointOptions options_of);
  EndpointState(const EndpointState&) = delete;
  EndpointState& operator=(const EndpointState&) = delete;
  ~EndpointState();

  /// Breaks the connection: from here on it is ending. `culprit` (or null) fails with `error`, the
  /// others because of it.
  void fail(const Error& error, TransferState* culprit) noexcept;

  /// Fails what waits, for room or for the peer.
  void fail_waiting() noexcept;

  /// Nothing that is posted completes any more.
  void forget_posted() noexcept;

  /// Operations of the application are not over.
  [[nodiscard]] bool is_busy() const noexcept;

  /// Something is under way that only the peer's process can end.
  [[nodiscard]] bool waits_for_peer() const noexcept;

  [[nodiscard]] Error not_ready() const noexcept { return ending.not_ready(); }

  /// Goes on with ending, and with what the clock asks for. When it wants to be called next.
  Clock::time_point look_after(Clock::time_point at) noexcept;
  [[nodiscard]] Clock::time_point next_look(Clock::time_point at) const noexcept;

  /// The completion queue is of no use any more.
  void on_lost(const transport::CompletionQueue& queue) noexcept;

  /// The application has let go of it, and nothing of it is in any queue: it can be destroyed.
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

  /// All but the protocol; null: there is no such memory, or it is not known.
  void set_route(Route& way, const RegionState* local,
                 const RemoteRegionState* remote_region) const noexcept {
    const Path at_peer = remote_region == nullptr ? Path::host : remote_region->path;
    const Path here = local == nullptr ? Path::host : local->path;
    way.connection = number;
    way.record = local == nullptr ? std::uint16_t{0} : local->record;
    way.remote =
        remote_region == nullptr ? kUnknownRemote : remote_side(remote_region->type, at_peer);
    way.path = std::max(here, at_peer);
  }

  /// Whether its memory is a device's that NICs write, so that it has to be flushed.
  [[nodiscard]] bool is_device(const TransferState& transfer) const noexcept {
    return transfer.region != nullptr && transfer.region->path != Path::host &&
           !paths.is_staged(transfer.region->path);
  }

  /// Whether its memory is a device's that this end's NIC does not reach.
  [[nodiscard]] bool is_staged(const TransferState& transfer) const noexcept {
    return transfer.region != nullptr && paths.is_staged(transfer.region->path);
  }

  /// The immediate of a put whose bytes no NIC has carried, and are there. False: there is no room
  /// or no credit yet, or the endpoint has failed.
  bool post_immediate(TransferState& transfer) noexcept;

  /// Posts `operation`, or queues what there is no room for.
  [[gnu::always_inline]] inline Result<Transfer> start(transport::Operation& operation,
                                                       TransferState& transfer,
                                                       TransferKind kind) noexcept;

  /// Has `mover` carry it, once it is at the head of the queue; `by_nic`: on NICs, where it can't
  /// else. Errors: nothing has begun.
  Result<void> start_moved(Mover& mover, transport::Operation& operation, TransferState& transfer,
                           const Move& move, bool by_nic);

  /// Behind what waits.
  Transfer wait_in_queue(const transport::Operation& operation, TransferState& transfer) noexcept;

  /// Something waits for room, or for a mover: post_waiting() may go on with it.
  [[nodiscard]] bool has_waiting() const noexcept { return !pending.empty() || pressing; }

  /// Goes on with those that wait, as far as that is possible now.
  void post_waiting() noexcept;

  /// A request of the data lane has completed.
  void on_posted(Posted& posted) noexcept;

  /// One of its requests has; `last`: this one, so that all of them are over.
  void on_failed(const Posted& posted, const transport::Completion& completion, bool last) noexcept;
  void give_up(TransferState* transfer) noexcept;

  /// The last part of a transfer is over, but the transfer is not.
  void go_on(TransferState& transfer) noexcept;

  /// A mover has done what it had to do.
  void on_moved(TransferState& transfer) noexcept;

  [[nodiscard]] Transfer hand_out(TransferState& transfer) noexcept;

  // --- for its parts

  /// The message of the peer's was taken by its NIC.
  void on_said() noexcept;
  void on_control_lost(const Error& why) noexcept;
  [[nodiscard]] Error broken_protocol(const char* why) const noexcept;

  /// The peer has sent what it may not: fails.
  void break_protocol(const char* why) noexcept;

  /// Something has happened that others wait for.
  void note_event() noexcept {
    ++worker->event_count;
    look_soon();
  }

  /// The next tick of the worker looks after it.
  void look_soon() noexcept { worker->endpoints.look_earlier(*this, worker->now); }

  /// ibv_post_send(3) has failed.
  [[nodiscard]] Error post_error(int result) const noexcept {
    return transport::post_error(result, nic->info.name);
  }

  /// The same: the endpoint fails, and `transfer` by it.
  void fail_post(int result, TransferState* transfer) noexcept {
    fail(post_error(result), transfer);
  }

  EndpointWiring wiring{*this};  // goes last: the lanes send from its memory

  // --- the data path's. A put touches three cache lines of these, from here on: with a thousand
  // peers it waits for each.

  alignas(64) WorkerState* worker;
  counters::TrafficBlock* counts;  // until it is the worker's: that one's own
  NicState* nic = nullptr;
  std::uint32_t number = 0;  // of the process' connections, RemoteRegionState::connection
  EndpointPhase phase = EndpointPhase::ready;
  PathRules paths;
  bool pressing = false;  // the outbox has something that goes before all that is pending
  PendingQueue pending;
  SliceChecks checks{*this};
  SendQueue sends;
  EndpointMovers movers{*this};
  Messages messages;

  // --- the rest

  LookPlace look;  // in WorkerState::endpoints
  WorkerNic& worker_nic;
  EndpointOptions options;
  std::string peer;
  std::shared_ptr<WorkerState> keeps_worker;  // until the application lets go
  bool dialed = false;                        // by Endpoint::connect(): reconnect() can do so again

  ControlLane control{*this};
  PeerWatch watch{*this};
  Ending ending{*this};
  RemoteRegions remote_regions{*this};
  PreparedLists lists{*this};
  // By the handshake's connection: both lanes, or the control lane alone; null: a NIC carries both.
  std::unique_ptr<transport::TcpLink> link;
};

/// Puts `transfer`, whose handle is made, behind what waits, and goes on with all of that.
void enqueue(EndpointState& endpoint, TransferState& transfer) noexcept;

}  // namespace hbmwire::detail
