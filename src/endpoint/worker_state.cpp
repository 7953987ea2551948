// SPDX-License-Identifier: MIT
#include "endpoint/worker_state.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "connect/lane_places.hpp"
#include "connect/listener_state.hpp"
#include "context/context_state.hpp"
#include "context/path_policy.hpp"
#include "counters/store.hpp"
#include "endpoint/longest_end.hpp"
#include "endpoint/transfer_counts_datapath.hpp"
#include "endpoint/transfer_trace.hpp"
#include "verbs/port.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

// A completion queue entry has some 64 bytes, and entries are written one after the other. The
// queue of a worker with one endpoint therefore fits into the CPU's first cache, where each
// completion is 10 ns cheaper. Each further queue is 16 times as large, so that few queues must be
// polled: about four for a thousand peers.
constexpr int kFirstCompletionQueueEntries = 512;
constexpr std::size_t kLargestCompletionQueue = 2;  // 131072 entries

// A pool grows by this many receives.
constexpr int kMessageBlock = 64;
constexpr int kControlBlock = 32;
constexpr std::uint64_t kMostExtraReceives = 1U << 20U;

// Some 360 bytes each, allocated at the start.
constexpr std::uint32_t kMostTransfers = 1U << 20U;

Result<WorkerNic> open_nic(const Context& context, const Nic& nic, std::size_t transfers,
                           int epoll) {
  NicState& device = state_of(nic);
  HBMWIRE_TRY(verbs::check_process(device, Stage::open));
  HBMWIRE_TRY_ASSIGN(auto channel, verbs::create_channel(device));
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, channel.get()->fd, &event) != 0)
    return tl::make_unexpected(system_error(Stage::open, "epoll_ctl", errno, device.info.name));
  HBMWIRE_TRY_ASSIGN(
      const Allocation memory,
      context.allocate(MemoryType::host, transfers * sizeof(std::uint64_t) + kSpareBytes));
  HBMWIRE_TRY_ASSIGN(Region results, nic.register_memory(memory, Access::local_write));
  WorkerNic opened{.nic = nic, .channel = std::move(channel), .results = std::move(results)};
  opened.shares_receives =
      device.limits.shared_queues > 0 && device.limits.shared_receives >= kMessageBlock;
  return opened;
}

/// Whether the policy lets a NIC carry anything, so that a machine without one deserves a warning.
bool wants_nics(const PathPolicy& policy) noexcept {
  return policy.admits(MemoryType::host, Path::host) ||
         policy.admits(MemoryType::gaudi, Path::zero_copy);
}

/// Empty if the machine has no NIC and memory may go by TCP.
Result<std::vector<Nic>> nics_of(const Context& context) {
  auto nics = context.open_nics();
  if (nics || !may_do_without(context, nics.error())) return nics;
  const Error& no_nic = nics.error();
  HBMWIRE_PROBE5(fallback, Fallback::tcp, no_nic.subject, Path::host, Path::tcp, no_nic.code);
  // Logs each cause once: errors of one cause have one static text.
  static std::atomic<const char*> said{nullptr};
  if (said.exchange(no_nic.call) != no_nic.call) {
    log_line(wants_nics(context.paths()) ? LogLevel::warn : LogLevel::info,
             [&] { return "endpoints go by TCP, through this process: " + describe(no_nic); });
  }
  return std::vector<Nic>{};
}

}  // namespace

WorkerState::WorkerState(Context context_of, const WorkerOptions& options_of, WorkerThreads threads)
    : locks(options_of.progress_thread || threads == WorkerThreads::any),
      attends(true),
      context(std::move(context_of)),
      options(options_of) {
  budget.most = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      options.receive_pool_bytes /
          ReceivePool::memory_bytes(Messages::receive_bytes(options.eager_bytes)),
      kMostExtraReceives));
}

WorkerState::~WorkerState() { transfers.trace().leave(); }

Result<std::shared_ptr<WorkerState>> WorkerState::create(const Context& context,
                                                         const WorkerOptions& options,
                                                         WorkerThreads threads) {
  if (options.max_transfers == 0 || options.max_transfers > kMostTransfers) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "a worker has 1 to 1048576 transfers at a time",
                                          "max_transfers"));
  }
  if (options.eager_bytes > (1U << 20U)) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "an eager message has at most 1 MiB", "eager_bytes"));
  }
  HBMWIRE_TRY_ASSIGN(const std::vector<Nic> nics, nics_of(context));
  const std::shared_ptr<WorkerState> worker(new WorkerState(context, options, threads),
                                            [](WorkerState* state) { state->orphan(); });
  HBMWIRE_TRY(worker->waiting.open());
  HBMWIRE_TRY(
      worker->ready.open(options.progress_thread ? -1 : worker->waiting.fd(), worker->locks));
  worker->transfers.make(options.max_transfers, *worker, worker->locks, nics.size() > 1);
  worker->counts.make(state_of(context).counting.number());
  worker->transfers.trace().join(options.max_transfers, worker->attends);
  HBMWIRE_TRY(worker->sockets.open(worker->waiting.fd()));
  for (const Nic& nic : nics) {
    HBMWIRE_TRY_ASSIGN(WorkerNic opened,
                       open_nic(context, nic, options.max_transfers, worker->waiting.fd()));
    worker->nics.push_back(std::move(opened));
    WorkerNic& made = worker->nics.back();
    HBMWIRE_TRY_ASSIGN(transport::VerbsCompletionQueue* const completions,
                       worker->completions_for(made, LoopbackMover::kPlaces));
    HBMWIRE_TRY_ASSIGN(made.mover, LoopbackMover::create(nic, *completions));
    made.staged = std::make_unique<StagedMover>(*worker, &nic);
  }
  if (options.progress_thread) HBMWIRE_TRY(worker->waiting.start_thread());
  return worker;
}

void WorkerState::note_asked(TransferState& transfer) noexcept {
  const Clock::time_point asked = Clock::now();
  if (counts.takes_sample()) transfer.at_end |= AtEnd::kSample;
  if (options.times) transfer.at_end |= AtEnd::kTime;
  if (transfer.is_timed()) transfers.times_of(transfer) = {.asked = asked};
  if (trace_asked(transfer, asked) || options.times || orphaned) return;
  // `attends` was set for a sample only, or for a trace that has ended. Another trace may have
  // begun just now, and set `attends`, so ring() is asked once more (SharedFlag).
  attends = false;
  if (transfers.trace().ring() != nullptr) attends = true;
}

void WorkerState::attend(TransferState& transfer) noexcept {
  if (orphaned) ++held;
  const bool is_noted = transfer.is_timed() || (transfer.at_end & AtEnd::kTrace) != 0;
  if (!is_noted) note_asked(transfer);
  if ((transfer.at_end & AtEnd::kTime) != 0) transfers.times_of(transfer).posted = Clock::now();
  trace_posted(transfer);
}

void WorkerState::end_part(TransferState& part, TransferState::Status status) noexcept {
  EndpointState& endpoint = *part.endpoint;
  const bool failed = status == TransferState::Status::failed;
  TransferState& whole = transfers[part.cookie];
  const Route route = part;
  part.endpoint = nullptr;
  transfers.give_back(part);
  endpoint.movers.blocks.end_part(whole, route, failed ? &transfers.error_of(part) : nullptr);
}

void WorkerState::end_attended(TransferState& transfer, TransferState::Status status) noexcept {
  if ((transfer.at_end & AtEnd::kPart) != 0) return end_part(transfer, status);
  if ((transfer.at_end & AtEnd::kFetch) != 0 && status == TransferState::Status::succeeded) {
    const auto* results =
        std::bit_cast<const std::uint64_t*>(transfer.endpoint->worker_nic.results.address());
    transfer.value = results[transfers.index_of(transfer)];
  }
  if (status == TransferState::Status::succeeded) counts.note_success(transfer);
  if (transfer.is_timed()) {
    TransferTimes& times = transfers.times_of(transfer);
    times.over = Clock::now();
    if (status == TransferState::Status::succeeded)
      counts.note_time(transfer, *times.over - times.asked);
  }
  transfer.status = status;
  transfer.endpoint = nullptr;
  if (status == TransferState::Status::succeeded) {
    HBMWIRE_PROBE3(done, &transfer, transfer.kind, transfer.bytes);
  } else {
    [[maybe_unused]] const Error& why = transfers.error_of(transfer);
    HBMWIRE_PROBE6(fail, &transfer, transfer.kind, transfer.bytes, why.code, why.stage, why.call);
  }
  if ((transfer.at_end & AtEnd::kTrace) != 0) trace_over(transfer);
  if ((transfer.at_end & AtEnd::kTell) != 0) {
    ready.add(transfer);
  } else if (!transfer.held) {
    transfers.give_back(transfer);
  }
}

void WorkerState::tell_when_done(TransferState& transfer, std::uint64_t cookie) noexcept {
  if (made.is_inherited()) return;
  transfer.cookie = cookie;
  if ((transfer.at_end & AtEnd::kTell) != 0) return;
  transfer.at_end |= AtEnd::kTell;
  if (!locks)
    transfer.guarded = true;  // with a lock it is always set, and is read without the
                              // lock
  if (!transfer.is_over()) return;
  ready.add(transfer);
  ++event_count;
}

std::optional<Done> WorkerState::next_done() {
  if (made.is_inherited()) return {};
  if (!ready.has_transfer()) progress();
  TransferState* const transfer = ready.take_transfer();
  if (transfer == nullptr) return {};
  Done told{.cookie = transfer->cookie,
            .result = {},
            .bytes = transfer->bytes,
            .value = transfer->value,
            .settled = transfer->settled};
  if (transfer->status == TransferState::Status::failed)
    told.result = tl::make_unexpected(transfers.error_of(*transfer));
  transfer->at_end &= static_cast<std::uint8_t>(~AtEnd::kTell);
  if (!locks && !orphaned) transfer->guarded = false;
  if (!transfer->held) transfers.give_back(*transfer);
  return told;
}

void WorkerState::fail(TransferState& transfer, const Error& error, bool settled) noexcept {
  transfer.settled = settled;
  transfers.set_error(transfer, error);
  if ((transfer.at_end & AtEnd::kPart) == 0) counts.note_failure(transfer, error.code);
  ++event_count;
  end_attended(transfer, TransferState::Status::failed);
}

Result<transport::VerbsCompletionQueue*> WorkerState::completions_for(WorkerNic& nic, int places) {
  for (const auto& queue : nic.completions) {
    if (queue->has_room(places)) return queue.get();
  }
  int entries = std::max(
      kFirstCompletionQueueEntries << 4 * std::min(nic.completions.size(), kLargestCompletionQueue),
      places);
  polled.reserve(polled.size() + 1);
  nic.completions.reserve(nic.completions.size() + 1);
  const auto create = [&] {
    return transport::VerbsCompletionQueue::create(state_of(nic.nic).shared_from_this(),
                                                   nic.channel.get(), entries);
  };
  auto queue = create();
  // Drivers lock a queue's memory: 8 MiB may be more than is left of the limit (RLIMIT_MEMLOCK).
  while (!queue && entries > places) {
    entries = std::max(entries / 16, places);
    queue = create();
  }
  if (!queue) return tl::make_unexpected(queue.error());
  if (!(*queue)->has_room(places)) {
    const NicState& device = state_of(nic.nic);
    return tl::make_unexpected(
        make_error(Errc::exhausted, Stage::open, "no completion queue is long enough",
                   verbs::with_limit(device, "max_cqe", device.limits.completions),
                   Hint::completion_queue_length));
  }
  polled.push_back(queue->get());
  nic.completions.push_back(std::move(*queue));
  return nic.completions.back().get();
}

Result<std::unique_ptr<LaneGroup>> WorkerState::make_group(WorkerNic& nic, int sends) {
  auto group = std::make_unique<LaneGroup>();
  // The queue needs room for two blocks of each pool, since other endpoints are to join the group.
  HBMWIRE_TRY_ASSIGN(group->completions,
                     completions_for(nic, sends + 2 * (kMessageBlock + kControlBlock)));
  const auto make = [&](std::uint32_t receive_bytes, int block, ReceivePool::Budget* of) {
    const int depth = std::max(group->completions->capacity(), 2 * block);
    return ReceivePool::shared(context, nic, *group->completions,
                               {.receive_bytes = receive_bytes,
                                .block = static_cast<std::uint32_t>(block),
                                .depth = static_cast<std::uint32_t>(depth),
                                .budget = of});
  };
  HBMWIRE_TRY_ASSIGN(group->messages,
                     make(Messages::receive_bytes(options.eager_bytes), kMessageBlock, &budget));
  HBMWIRE_TRY_ASSIGN(group->control, make(wire::kMaxControlBytes, kControlBlock, nullptr));
  return group;
}

Result<LaneGroup*> WorkerState::group_for(WorkerNic& nic, int sends) {
  for (const auto& group : nic.groups) {
    if (group->completions->has_room(sends + kMessageBlock + kControlBlock) &&
        group->messages->may_grow() && group->control->may_grow())
      return group.get();
  }
  if (!nic.shares_receives) return nullptr;
  nic.groups.reserve(nic.groups.size() + 1);
  auto another = make_group(nic, sends);
  if (another) return nic.groups.emplace_back(std::move(*another)).get();
  // Endpoints that share receives already keep sharing them.
  nic.shares_receives = false;
  log_line(LogLevel::warn, [&] {
    return "each new endpoint has receives of its own, which takes more memory: " +
           describe(another.error());
  });
  return nullptr;
}

Result<UnexpectedPool*> WorkerState::unexpected_of(WorkerNic& nic) {
  if (!nic.unexpected) {
    auto pool = std::make_unique<UnexpectedPool>(context, nic, options.unexpected_bytes,
                                                 options.eager_bytes);
    HBMWIRE_TRY(pool->begin());
    nic.unexpected = std::move(pool);
  }
  return nic.unexpected.get();
}

void WorkerState::look_after_pools() noexcept {
  budget.is_short = false;
  const auto look_after = [&](WorkerNic& nic) {
    if (nic.unexpected) nic.unexpected->look_after(now);
    for (const auto& group : nic.groups) {
      group->messages->look_after(now);
      group->control->look_after(now);
    }
  };
  for (WorkerNic& nic : nics) look_after(nic);
  if (tcp) look_after(tcp->nic);
}

Result<WorkerNic*> WorkerState::nic_for_tcp() {
  if (!tcp) {
    polled.reserve(polled.size() + 1);
    HBMWIRE_TRY_ASSIGN(tcp, TcpPort::create(*this));
    polled.push_back(&tcp->completions());
  }
  return &tcp->nic;
}

Result<std::vector<WorkerNic*>> WorkerState::nics_for_lanes(std::span<const std::uint8_t> theirs) {
  if (nics.empty()) {
    HBMWIRE_TRY_ASSIGN(WorkerNic* const instead, nic_for_tcp());
    return std::vector{instead};
  }
  std::vector<bool> up(nics.size(), true);
  // A single NIC is taken in any case, so its port is not asked.
  for (std::size_t i = 0; nics.size() > 1 && i < nics.size(); ++i) {
    const NicState& nic = state_of(nics[i].nic);
    up[i] = verbs::is_active(nic.context.get(), nic.info.port);
    if (!std::exchange(nics[i].told_down, !up[i]) && !up[i])
      log_line(LogLevel::warn, [&] {
        return "new endpoints do without NIC " + nic.info.name + ", whose port is down";
      });
  }
  std::vector<WorkerNic*> chosen;
  for (const std::uint8_t place : lane_places(up, theirs)) chosen.push_back(&nics[place]);
  return chosen;
}

std::uint8_t WorkerState::place_of(const WorkerNic& nic) const noexcept {
  const auto at = std::ranges::find(nics, &nic, [](const WorkerNic& each) { return &each; });
  return at == nics.end() ? 0 : static_cast<std::uint8_t>(at - nics.begin());
}

std::size_t WorkerState::advance_staging() noexcept {
  std::size_t handled = 0;
  for (const WorkerNic& nic : nics) handled += nic.staged->progress();
  // A mover that is done leaves the list; the one that takes its place is asked in the next call.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < at_engines.size(); ++i) handled += at_engines[i]->progress();
  if (neighbours.ipc_server) handled += neighbours.ipc_server->progress();
  if (tcp) handled += tcp->nic.staged->progress();
  return handled;
}

void WorkerState::adopt(std::shared_ptr<EndpointState> endpoint) {
  labels.add(endpoint->number, {.nic = endpoint->nic->info.name,
                                .peer = endpoint->peer,
                                .over_tcp = endpoint->paths.by_tcp()});
  endpoint->counts = &counts.begin_endpoint(*endpoint);
  HBMWIRE_PROBE4(connect, endpoint->number, endpoint->peer.c_str(),
                 endpoint->nic->info.name.c_str(), -1);
  transfers.trace().add_peer(endpoint->number, endpoint->nic->info.name, endpoint->peer);
  endpoints.add(std::move(endpoint));
  // A sleeping thread does not watch this endpoint's completion queue, and would sleep too long:
  // wakes it.
  ++event_count;
}

Result<void> WorkerState::check_process(Stage stage) const {
  if (!made.is_inherited()) return {};
  return tl::make_unexpected(make_error(Errc::not_supported, stage,
                                        "the worker is of the process before fork()", "worker",
                                        Hint::forked_nic));
}

std::size_t WorkerState::tick() noexcept {
  now = Clock::now();
  const std::uint64_t before = event_count;
  event_count += look_by_clock();
  for (const WorkerNic& nic : nics) nic.mover->look_after(*this, now);
  look_after_pools();
  counters::Store::get().put_look_ups(now);
  // An endpoint that asks for "now" is due at the next tick.
  while (EndpointState* const endpoint = endpoints.due(now)) {
    endpoints.look_at(*endpoint, Clock::time_point::max());
    const Clock::time_point next = endpoint->look_after(now);
    if (endpoint->gone()) {
      endpoints.take_out(*endpoint);
    } else {
      endpoints.look_at(*endpoint, std::min(endpoint->look.next, next));
    }
  }
  return static_cast<std::size_t>(event_count - before);
}

std::size_t WorkerState::look_by_clock() noexcept {
  const std::size_t handled = sockets.look(now);
  by_clock.look_after(now);
  return handled;
}

void WorkerState::lose(transport::CompletionQueue& queue) noexcept {
  queue.lose();
  for (const auto& endpoint : endpoints) endpoint->on_lost(queue);
}

void WorkerState::cancel(TransferState& transfer, const Error& why) noexcept {
  if (Ticket* const ticket = transfer.as<Ticket>(); ticket != nullptr)
    return ticket->task->give_up(why);
  // Transfers of the LoopbackMover have no endpoint, and end by themselves in a moment.
  if (transfer.endpoint == nullptr || transfer.endpoint->messages.cancel_receive(transfer, why))
    return;
  transfer.endpoint->fail(why, &transfer);
}

Result<void> WorkerState::drive_to_end(const TransferState& transfer) {
  // A transfer without an endpoint ends by itself in a moment.
  const Deadline at_last =
      transfer.endpoint == nullptr ? Deadline::after(1h) : longest_end(transfer.endpoint->options);
  return drive({at_last, -1}, [&] { return transfer.is_over(); });
}

void WorkerState::take_events() noexcept {
  sockets.look_soon();
  for (const WorkerNic& nic : nics) transport::VerbsCompletionQueue::take_events(nic.channel.get());
}

std::chrono::milliseconds WorkerState::wake_after() const noexcept {
  // Bounded, since a listener's peers, for example, have deadlines of their own.
  constexpr auto kLongest = 1000ms;
  constexpr auto kShakingHands = 50ms;
  constexpr auto kShortest = 1ms;
  std::chrono::milliseconds most = sockets.handshakes() != 0 ? kShakingHands : kLongest;
  for (const WorkerNic& nic : nics) {
    if (nic.mover->broken) most = std::min(most, LoopbackMover::kMendAfter);
  }
  if (neighbours.rings.waits()) return kShortest;
  const Clock::time_point next = std::min(endpoints.next(), by_clock.due());
  const Clock::time_point at = Clock::now();
  // Compares first: the difference of two distant times may overflow a duration.
  if (next <= at) return kShortest;
  if (next - at >= most) return most;
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(next - at), kShortest);
}

void WorkerState::orphan() noexcept {
  if (is_left_as_is()) return;
  if (!made.is_inherited()) waiting.stop_thread();
  bool last = false;
  {
    const WorkerLock lock(*this);
    if (!made.is_inherited()) end_endpoints();
    endpoints.clear();
    polled.clear();
    nics.clear();
    tcp.reset();
    // From here on handles are counted in `held`: the last one to go deletes the state.
    orphaned = attends = true;
    for (TransferState& transfer : transfers) transfer.guarded = true;
    held += static_cast<std::size_t>(std::ranges::count_if(transfers, &TransferState::held));
    last = held == 0;
  }
  if (last) end();
}

void WorkerState::end() noexcept { delete this; }

void WorkerState::end_endpoints() noexcept {
  // The endpoints say goodbye, for which they have 100 ms.
  const auto until = Clock::now() + 100ms;
  for (const auto& endpoint : endpoints) endpoint->ending.abandon();
  while (!endpoints.empty() && Clock::now() < until) {
    progress();
    endpoints.look_at_all();
    tick();
  }
  // Ends transfers whose handles still exist, since no thread will drive them any more.
  for (const auto& endpoint : endpoints) endpoint->ending.end_now();
  const Error gone = make_error(Errc::cancelled, Stage::complete, "the worker has gone");
  for (const WorkerNic& nic : nics) {
    if (nic.mover) nic.mover->end(gone);
    if (nic.staged) nic.staged->drain(gone);
  }
  while (!at_engines.empty()) at_engines.back()->drain(gone);
  if (neighbours.ipc_server) neighbours.ipc_server->end();
  if (tcp) tcp->nic.staged->drain(gone);
}

TransferState* WorkerState::take_alone(TransferKind kind) noexcept {
  TransferState* const transfer = transfers.take();
  if (transfer == nullptr) return nullptr;
  transfer->begin(nullptr, kind, /*length_bytes=*/0);
  static_cast<Route&>(*transfer) = Route();
  HBMWIRE_PROBE4(ask, transfer, transfer->connection, transfer->kind, transfer->bytes);
  transfer->held = true;
  counts.own().started.add(1);
  if (attends) attend(*transfer);
  return transfer;
}

Result<Transfer> WorkerState::flush(const Slice& memory) noexcept {
  HBMWIRE_TRY(check_process(Stage::post));
  const auto refuse = [](const char* why) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::post, why));
  };
  if (memory.region == nullptr) return refuse("a slice of no region");
  const RegionState& region = state_of(*memory.region);
  const std::uint64_t size = region.allocation.size_bytes();
  if (memory.offset_bytes > size || memory.length_bytes > size - memory.offset_bytes)
    return refuse("the slice leaves its region");
  WorkerNic* flushes = nullptr;
  std::optional<std::uint32_t> key;
  for (WorkerNic& nic : nics) {
    key = region.local_key(state_of(nic.nic));
    flushes = &nic;
    if (key) break;
  }
  // Memory that is registered with no NIC was written by none, so it needs no flush.
  if (!key && !region.registrations.empty())
    return refuse("the slice's region is not registered with one of the worker's NICs");
  TransferState* const transfer = take_alone(TransferKind::flush);
  if (transfer == nullptr) return tl::make_unexpected(TransferPool::none_left({}));
  transfer->bytes = memory.length_bytes;
  transfer->path = region.path;
  transfer->record = region.record;
  transfer->operation = {};
  transfer->operation.local = region.address() + memory.offset_bytes;
  transfer->operation.local_key = key.value_or(0);
  transfer->operation.length = memory.length_bytes;
  if (region.path == Path::host || !key || memory.length_bytes == 0) {
    succeed(*transfer);  // the CPU, or the engine, sees these bytes once they have completed
  } else {
    flushes->mover->start(*transfer, /*remote_key=*/0);
  }
  return handle_of<Transfer>(transfer);
}

}  // namespace hbmwire::detail
