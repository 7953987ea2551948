// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/worker.hpp"

#include "base/forks.hpp"
#include "base/internals.hpp"
#include "base/probes.hpp"
#include "endpoint/by_clock.hpp"
#include "endpoint/endpoint_labels.hpp"
#include "endpoint/look_schedule.hpp"
#include "endpoint/ready_queue.hpp"
#include "endpoint/ring_poller.hpp"
#include "endpoint/sockets.hpp"
#include "endpoint/tcp_port.hpp"
#include "endpoint/transfer_counts.hpp"
#include "endpoint/transfer_pool.hpp"
#include "endpoint/worker_nic.hpp"
#include "endpoint/worker_waiting.hpp"
#include "mover/ipc_server.hpp"
#include "mover/rail_mover.hpp"

namespace hbmwire::detail {

struct ListenerState;

/// Messages of other processes of the node to a worker, and the copies that they ask it for.
struct NeighbourWork {
  RingPoller rings;                       // of endpoints whose peers send by rings
  std::unique_ptr<IpcServer> ipc_server;  // once a peer has asked for it
};

/// The state that a worker and its endpoints share. Used by one thread at a time, or under `mutex`.
///
/// It lives until its Worker, its Endpoints and the handles of its transfers have gone. The last
/// Worker or Endpoint calls orphan(); from then on the last handle deletes the state.
struct alignas(64) WorkerState {
  using Clock = std::chrono::steady_clock;

  static Result<std::shared_ptr<WorkerState>> create(const Context& context,
                                                     const WorkerOptions& options,
                                                     WorkerThreads threads);
  WorkerState(Context context_of, const WorkerOptions& options_of, WorkerThreads threads);
  WorkerState(const WorkerState&) = delete;
  WorkerState& operator=(const WorkerState&) = delete;
  ~WorkerState();

  /// Notes when a transfer was asked for, if it is timed or traced. Call it when the transfer
  /// begins, if `attends` is set.
  void note_asked(TransferState& transfer) noexcept;

  /// Counts the handle of a transfer, and notes when the transfer was posted. Call it when the
  /// handle has been made, if `attends` is set. A transfer that waits is noted as posted later.
  void attend(TransferState& transfer) noexcept;

  /// Ends a transfer that has succeeded (transfer_counts_datapath.hpp). Forced in line, as is every
  /// function with a probe that a put passes: compilers count the text of a probe as many
  /// instructions.
  [[gnu::always_inline]] inline void succeed(TransferState& transfer) noexcept;

  /// Ends a transfer that has failed. `settled`: Transfer::settled().
  void fail(TransferState& transfer, const Error& error, bool settled) noexcept;

  /// Ends a transfer with the extra steps of AtEnd.
  void end_attended(TransferState& transfer, TransferState::Status status) noexcept;

  /// Ends a part of a transfer of blocks, and tells BlockMover.
  void end_part(TransferState& part, TransferState::Status status) noexcept;

  /// Makes Worker::next_done() tell of `transfer` when it is over.
  void tell_when_done(TransferState& transfer, std::uint64_t cookie) noexcept;

  /// The next transfer that is over. Its place is free then, unless its handle is still held.
  std::optional<Done> next_done();

  // --- progress

  std::size_t progress() noexcept;

  /// Drives staged and copied transfers, of which no completion tells.
  std::size_t advance_staging() noexcept;

  /// Looks after everything that goes by the clock: peers that may be gone, deadlines, handshakes.
  std::size_t tick() noexcept;

  /// The part of tick() for sockets, listeners and tasks.
  std::size_t look_by_clock() noexcept;

  /// The NIC brings no more completions of `queue`: its endpoints fail, and no other joins it.
  void lose(transport::CompletionQueue& queue) noexcept;

  /// Reads the events of the epoll set's descriptors.
  void take_events() noexcept;

  /// Handles the completions that `queue` has, with `most_polls` polls at most. Must not be called
  /// while `queue` is being polled.
  void handle_completions(transport::CompletionQueue& queue, int most_polls) noexcept;

  /// Drives until `is_over()`, which may be called again after it was true. Errors: timed_out,
  /// cancelled.
  template <class IsOver>
  Result<void> drive(const Wait& wait, const IsOver& is_over) {
    HBMWIRE_TRY(check_process(Stage::complete));
    return waiting.drive(
        wait, [this] { progress(); }, is_over);
  }

  /// drive(), but the end of `wait` is no error.
  template <class IsOver>
  Result<void> drive_until(const Wait& wait, const IsOver& is_over) {
    const auto driven = drive(wait, is_over);
    // An error with a number comes from a call, and not from the end of the wait.
    const bool has_ended =
        !driven && driven.error().number_kind == NumberKind::none &&
        (driven.error().code == Errc::timed_out || driven.error().code == Errc::cancelled);
    return has_ended ? Result<void>{} : driven;
  }

  /// A transfer without an endpoint, with its handle; null: all are in use.
  TransferState* take_alone(TransferKind kind) noexcept;

  /// Makes bytes that NICs wrote into a device's memory visible to the device.
  Result<Transfer> flush(const Slice& memory) noexcept;

  /// Ends an active transfer with `why`. drive_to_end() waits until it is over.
  void cancel(TransferState& transfer, const Error& why) noexcept;
  Result<void> drive_to_end(const TransferState& transfer);

  /// Until an endpoint must be looked after: at least a millisecond, at most a second.
  [[nodiscard]] std::chrono::milliseconds wake_after() const noexcept;

  /// Errors: the worker is the parent's; a child by fork(2) can only let go of it.
  [[nodiscard]] Result<void> check_process(Stage stage) const;

  /// Whether this is a child's copy of a worker with a lock. At fork(2) another thread may have
  /// been in the middle of anything, so the child leaves the copy as it is.
  [[nodiscard]] bool is_left_as_is() const noexcept { return locks && made.is_inherited(); }

  /// A completion queue with room for `places`. Errors: Stage::open.
  Result<transport::VerbsCompletionQueue*> completions_for(WorkerNic& nic, int places);

  /// The group that the lanes of a new endpoint join, with room for `sends` requests; null: the
  /// lanes have receives of their own. Errors: Stage::open.
  Result<LaneGroup*> group_for(WorkerNic& nic, int sends);
  Result<std::unique_ptr<LaneGroup>> make_group(WorkerNic& nic, int sends);

  /// Where messages of `nic` wait for their receives. Errors: Stage::allocate.
  Result<UnexpectedPool*> unexpected_of(WorkerNic& nic);

  /// The stand-in NIC of endpoints over TCP, made with the first of them. Errors: Stage::allocate.
  Result<WorkerNic*> nic_for_tcp();

  /// The NICs for the lanes of a new endpoint, the first for its own lanes and the others for its
  /// rails: those whose port is up, or all if none is. As far as possible, each is at the same
  /// place as one of the peer's NICs (`theirs`), see lane_places(). A worker without NICs has only
  /// the stand-in of TCP. Errors: as nic_for_tcp().
  Result<std::vector<WorkerNic*>> nics_for_lanes(std::span<const std::uint8_t> theirs = {});

  /// The place of `nic` among the worker's NICs; 0 for the stand-in of TCP.
  [[nodiscard]] std::uint8_t place_of(const WorkerNic& nic) const noexcept;

  /// Takes an endpoint over: drives and counts it from now on. May throw std::bad_alloc.
  void adopt(std::shared_ptr<EndpointState> endpoint);

  /// Ends everything: no thread will ask for progress any more.
  void orphan() noexcept;

  /// Ends all endpoints, and every transfer that is under way.
  void end_endpoints() noexcept;

  /// Lets the pools that endpoints share grow and shrink.
  void look_after_pools() noexcept;

  /// Deletes the state: no handle refers to it any more.
  void end() noexcept;

  // --- the data path, in one cache line

  MadeHere made;
  TransferPool transfers;
  std::uint64_t event_count = 0;  // completions, failures: everything that a thread may wait for
  std::vector<transport::CompletionQueue*> polled;  // of all NICs
  unsigned calls = 0;
  bool locks = false;          // several threads use it
  SharedFlag attends = false;  // new handles have to be counted, timed or traced
  bool orphaned = false;

  TransferCounts counts{*this};
  std::size_t held = 0;      // handles of prepared transfers; once orphaned, also of transfers
  std::uint32_t staged = 0;  // jobs of engines under way, which must be polled
  std::vector<Mover*> at_engines;  // movers of endpoints with copies under way
  NeighbourWork neighbours;        // work for other processes of the node

  // --- everything else

  Context context;
  WorkerOptions options;
  std::vector<WorkerNic> nics;   // empty: endpoints go by TCP
  std::unique_ptr<TcpPort> tcp;  // once an endpoint goes by TCP

  ReceivePool::Budget budget;  // for messages, over all NICs
  LookSchedule<EndpointState> endpoints;
  EndpointLabels labels;
  ClockList by_clock;                    // listeners, and tasks
  Clock::time_point now = Clock::now();  // as of the last tick()
  WorkerWaiting waiting{*this};
  ReadyQueue ready;
  Sockets sockets;
};

/// Holds the lock of a worker that several threads use.
class WorkerLock {
 public:
  // A child by fork(2) has one thread, and the lock may have been taken by a thread of its parent.
  explicit WorkerLock(WorkerState& worker) noexcept
      : worker_(worker.locks && !worker.made.is_inherited() ? &worker : nullptr) {
    if (worker_ != nullptr) [[unlikely]]
      worker_->waiting.lock();
  }

  WorkerLock(const WorkerLock&) = delete;
  WorkerLock& operator=(const WorkerLock&) = delete;

  ~WorkerLock() {
    if (worker_ != nullptr) [[unlikely]] {
      worker_->waiting.unlock();
    }
  }

 private:
  WorkerState* worker_;
};

/// The slow half of under_lock().
template <class Work>
[[gnu::noinline]] auto with_lock(WorkerState& worker, const Work work) {
  const WorkerLock lock(worker);
  return work();
}

/// Calls `work()` under the worker's lock, if it has one. Functions that every operation calls use
/// this: the path without a lock has nothing to undo, and needs no stack frame of its own.
template <class Work>
[[gnu::always_inline]] inline auto under_lock(WorkerState& worker, const Work& work) {
  if (worker.locks) [[unlikely]]
    return with_lock(worker, work);
  return work();
}

}  // namespace hbmwire::detail
