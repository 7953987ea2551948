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
  RingPoller rings;                       // of endpoints whose peers send by them
  std::unique_ptr<IpcServer> ipc_server;  // once a peer has asked for it
};

/// What a worker and its endpoints share. One thread at a time, or under `mutex`.
///
/// It goes when its Worker, its Endpoints and the handles of its transfers have gone: the last of
/// the first two calls orphan(), and from then on the last handle deletes it.
struct alignas(64) WorkerState {
  using Clock = std::chrono::steady_clock;

  static Result<std::shared_ptr<WorkerState>> create(const Context& context,
                                                     const WorkerOptions& options,
                                                     WorkerThreads threads);
  WorkerState(Context context_of, const WorkerOptions& options_of, WorkerThreads threads);
  WorkerState(const WorkerState&) = delete;
  WorkerState& operator=(const WorkerState&) = delete;
  ~WorkerState();

  /// It begins, and `attends` is set.
  void note_asked(TransferState& transfer) noexcept;

  /// Its handle has been made, and `attends` is set: it has been posted, unless it waits.
  void attend(TransferState& transfer) noexcept;

  /// It is over, and succeeded (transfer_counts_datapath.hpp). In line, as everything with a probe
  /// that a put passes: compilers take the text of a probe for many instructions.
  [[gnu::always_inline]] inline void succeed(TransferState& transfer) noexcept;

  void fail(TransferState& transfer, const Error& error, bool settled) noexcept;

  /// With what AtEnd asks for.
  void end_attended(TransferState& transfer, TransferState::Status status) noexcept;
  void end_part(TransferState& part, TransferState::Status status) noexcept;

  /// Worker::next_done() tells of `transfer` when it is over.
  void tell_when_done(TransferState& transfer, std::uint64_t cookie) noexcept;

  /// Tells of the next one that is over, whose place is free then unless its handle is there.
  std::optional<Done> next_done();

  // --- progress

  std::size_t progress() noexcept;

  /// Goes on with what is staged or copied, of which no completion tells.
  std::size_t advance_staging() noexcept;

  /// Looks after what goes by the clock: peers that may be gone, deadlines, handshakes.
  std::size_t tick() noexcept;
  std::size_t look_by_clock() noexcept;

  /// The NIC brings no more completions of `queue`: its endpoints fail, and none joins it.
  void lose(transport::CompletionQueue& queue) noexcept;

  /// Reads the events of the epoll set's descriptors.
  void take_events() noexcept;

  /// Handles all that `queue` has, with `most_polls` polls at most. Not while it is being polled.
  void empty(transport::CompletionQueue& queue, int most_polls) noexcept;

  /// Drives until `is_over()`, which may be asked more than once when it is true. Errors:
  /// timed_out, cancelled.
  template <class IsOver>
  Result<void> drive(const Wait& wait, const IsOver& is_over) {
    HBMWIRE_TRY(check_process(Stage::complete));
    return waiting.drive(
        wait, [this] { progress(); }, is_over);
  }

  /// The same, where the end of `wait` is no error.
  template <class IsOver>
  Result<void> drive_until(const Wait& wait, const IsOver& is_over) {
    const auto driven = drive(wait, is_over);
    // An error with a number is a call's, not the wait's.
    const bool has_ended =
        !driven && driven.error().number_kind == NumberKind::none &&
        (driven.error().code == Errc::timed_out || driven.error().code == Errc::cancelled);
    return has_ended ? Result<void>{} : driven;
  }

  /// A transfer of no endpoint, with its handle; null: all are in use.
  TransferState* take_alone(TransferKind kind) noexcept;

  /// Makes visible to a device what NICs wrote there.
  Result<Transfer> flush(const Slice& memory) noexcept;

  /// Ends an active transfer with `why`; drive_to_end() sees to it that it is over.
  void cancel(TransferState& transfer, const Error& why) noexcept;
  Result<void> drive_to_end(const TransferState& transfer);

  /// Until an endpoint is looked after: at least a millisecond, at most a second.
  [[nodiscard]] std::chrono::milliseconds wake_after() const noexcept;

  /// Errors: it is the parent's, of which a child by fork(2) can only let go.
  [[nodiscard]] Result<void> check_process(Stage stage) const;

  /// Whether this is a child's copy of a worker with a lock, which fork(2) may have found in the
  /// middle of anything: the child keeps it as it is.
  [[nodiscard]] bool is_left_as_is() const noexcept { return locks && made.is_inherited(); }

  /// A completion queue with room for `places`. Errors: Stage::open.
  Result<transport::VerbsCompletionQueue*> completions_for(WorkerNic& nic, int places);

  /// Those that a new endpoint's lanes join, with room for `sends` requests; null: they have
  /// receives of their own. Errors: Stage::open.
  Result<LaneGroup*> group_for(WorkerNic& nic, int sends);
  Result<std::unique_ptr<LaneGroup>> make_group(WorkerNic& nic, int sends);

  /// Where messages of `nic` wait for their receives. Errors: Stage::allocate.
  Result<UnexpectedPool*> unexpected_of(WorkerNic& nic);

  /// What endpoints over TCP share, made with the first of them. Errors: Stage::allocate.
  Result<WorkerNic*> nic_for_tcp();

  /// The NICs on which the lanes of a new endpoint lie, its own first and then its rails': those
  /// whose port is up, each with the same place as the peer's (`theirs`) as far as there is one
  /// (lane_places()). TCP's where there is none. Errors: as nic_for_tcp().
  Result<std::vector<WorkerNic*>> nics_for_lanes(std::span<const std::uint8_t> theirs = {});

  /// Among the worker's NICs; 0 of TCP's.
  [[nodiscard]] std::uint8_t place_of(const WorkerNic& nic) const noexcept;

  void adopt(std::shared_ptr<EndpointState> endpoint);

  /// Ends everything: nobody will ask for progress any more.
  void orphan() noexcept;

  void end_endpoints() noexcept;

  /// Pools that endpoints share grow and shrink.
  void look_after_pools() noexcept;

  /// Nobody holds anything of it any more.
  void end() noexcept;

  // --- the data path's, one cache line

  MadeHere made;
  TransferPool transfers;
  std::uint64_t event_count = 0;  // completions, failures: all that a thread may wait for
  std::vector<transport::CompletionQueue*> polled;  // of all NICs
  unsigned calls = 0;
  bool locks = false;          // several threads use it
  SharedFlag attends = false;  // new handles have to be counted, timed or traced
  bool orphaned = false;

  TransferCounts counts{*this};
  std::size_t held = 0;      // handles: of prepared transfers; once orphaned, of transfers, too
  std::uint32_t staged = 0;  // jobs of engines, which have to be asked
  std::vector<Mover*> at_engines;  // endpoints' movers that have something under way
  NeighbourWork neighbours;        // of other processes of the node

  // --- the rest

  Context context;
  WorkerOptions options;
  std::vector<WorkerNic> nics;   // none: endpoints go by TCP
  std::unique_ptr<TcpPort> tcp;  // once an endpoint goes by it

  ReceivePool::Budget budget;  // of all NICs' messages
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
  // A child by fork(2) has one thread, and the lock may be held by one of its parent's.
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

/// The second half of under_lock().
template <class Work>
[[gnu::noinline]] auto with_lock(WorkerState& worker, const Work work) {
  const WorkerLock lock(worker);
  return work();
}

/// `work()` under the worker's lock, where it has one. What is called once an operation goes by
/// this: the way without a lock has nothing to undo, and needs no frame of its own.
template <class Work>
[[gnu::always_inline]] inline auto under_lock(WorkerState& worker, const Work& work) {
  if (worker.locks) [[unlikely]]
    return with_lock(worker, work);
  return work();
}

}  // namespace hbmwire::detail
