// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "base/log.hpp"
#include "base/node_id.hpp"
#include "context/path_policy.hpp"
#include "endpoint/endpoint_state.hpp"
#include "registration/register.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kInlineBytes = 128;
// Of the control lane: a peer that does not look for a while has no receive left for questions; it
// is not gone.
constexpr std::uint8_t kWithoutEnd = 7;

/// Numbers connections, so that a RemoteRegion of one of them is no other's.
std::uint32_t next_number() noexcept {
  static std::atomic<std::uint32_t> number{0};
  return (number.fetch_add(1, std::memory_order_relaxed) + 1) & ~kByEngine;
}

Result<void> check_options(const EndpointOptions& options) {
  const auto refuse = [](const char* why, const char* which) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure, why, which));
  };
  constexpr std::uint32_t kMostRequests = 16384;
  if (options.send_depth < 2 || options.send_depth > kMostRequests)
    return refuse("a send queue has 2 to 16384 requests", "send_depth");
  if (options.receive_depth < 4 || options.receive_depth > kMostRequests)
    return refuse("a receive queue has 4 to 16384 places", "receive_depth");
  if (options.eager_bytes > (1U << 20U))
    return refuse("an eager message has at most 1 MiB", "eager_bytes");
  if (options.unexpected_bytes > (1U << 30U))
    return refuse("at most 1 GiB is set aside for unexpected messages", "unexpected_bytes");
  if (options.peer_timeout < 10ms || options.operation_timeout < 10ms)
    return refuse("a timeout is at least 10 ms", "peer_timeout, operation_timeout");
  return {};
}

/// A lane's share of the peer's time: half, so that an idle connection is looked at in between.
verbs::Wiring timed(const EndpointOptions& options) noexcept {
  verbs::Wiring wiring;
  const auto share = options.peer_timeout / 2;
  wiring.ack_timeout = 8;  // 1 ms: no network answers later, and the retries make it eight
  while (wiring.ack_timeout < 20 &&
         std::chrono::nanoseconds(4096LL << (wiring.ack_timeout + 1)) * (wiring.retries + 1) <=
             share) {
    ++wiring.ack_timeout;
  }
  return wiring;
}

/// Where device memory may not be reached by a copy, no message may come unasked: the sender is
/// told by this number.
EndpointOptions with_policy(EndpointOptions options, const Context& context) {
  const auto admits = [&](Path path) {
    return options.paths.admits(MemoryType::gaudi, path) &&
           context.paths().admits(MemoryType::gaudi, path);
  };
  const bool devices = admits(Path::zero_copy) || admits(Path::peer_memory);
  if (devices && !admits(Path::staged)) options.eager_bytes = 0;
  return options;
}

}  // namespace

EndpointState::EndpointState(WorkerState& worker_of, WorkerNic& nic_of, EndpointOptions options_of)
    : SendQueue(*this, options_of.send_depth),
      worker(&worker_of),
      nic(&nic_of.nic.state()),
      number(next_number()),
      messages(*this, options_of),
      worker_nic(nic_of),
      options(std::move(options_of)) {}

EndpointState::~EndpointState() {
  EndpointLabel* const label = worker->labels.find(number);
  if (label == nullptr) return;
  label->in_use = false;
  worker->labels.drop_unused(worker->transfers);
}

Result<std::shared_ptr<EndpointState>> EndpointState::create(
    const std::shared_ptr<WorkerState>& worker, const EndpointOptions& options,
    std::span<WorkerNic* const> nics) {
  HBMWIRE_TRY(check_options(options));
  WorkerNic& nic = *nics.front();
  auto endpoint =
      std::make_shared<EndpointState>(*worker, nic, with_policy(options, worker->context));
  HBMWIRE_TRY(endpoint->paths.set_policies(options.paths, worker->context.paths()));
  const std::uint32_t receives = endpoint->messages.receives();
  const bool over_tcp = TcpPort::stands_for(nic.nic.state());
  HBMWIRE_TRY(over_tcp ? endpoint->make_tcp_lanes(receives) : endpoint->make_nic_lanes(receives));
  endpoint->rails = RailMover::create(*endpoint, nics.subspan(1));
  endpoint->data = endpoint->data_lane.get();
  endpoint->inline_bytes = endpoint->data->inline_bytes();
  HBMWIRE_TRY(endpoint->make_buffers());
  HBMWIRE_TRY(endpoint->messages.post_receives());
  HBMWIRE_TRY(endpoint->control.post_receives());
  endpoint->keeps_worker = worker;
  return endpoint;
}

Result<void> EndpointState::make_nic_lanes(std::uint32_t receives) {
  const auto places = static_cast<int>(options.send_depth + receives + 2 * ControlLane::kBuffers);
  HBMWIRE_TRY_ASSIGN(transport::VerbsCompletionQueue * completions,
                     worker->completions_for(worker_nic, places));
  HBMWIRE_TRY_ASSIGN(data_lane, transport::VerbsLane::create(worker_nic.nic, *completions,
                                                             {.send_depth = options.send_depth,
                                                              .receive_depth = receives,
                                                              .inline_bytes = kInlineBytes}));
  HBMWIRE_TRY_ASSIGN(auto control_lane,
                     transport::VerbsLane::create(worker_nic.nic, *completions,
                                                  {.send_depth = ControlLane::kBuffers,
                                                   .receive_depth = ControlLane::kBuffers}));
  control.set_lane(std::move(control_lane));
  return {};
}

Result<void> EndpointState::make_tcp_lanes(std::uint32_t receives) {
  if (!admits_tcp(options.paths) || !admits_tcp(worker->context.paths())) {
    return tl::make_unexpected(make_error(
        Errc::permission_denied, Stage::connect,
        "the path policy excludes tcp, by which memory would go, since one end has no RDMA device",
        peer, Hint::path_policy));
  }
  tcp_user = std::make_unique<EndpointTcpUser>(*worker->tcp, *this);
  link = tcp_user->make_link({.data_requests = options.send_depth + 1,
                              .data_receives = receives,
                              .control = ControlLane::kBuffers});
  data_lane = link->make_lane(false);
  control.set_lane(link->make_lane(true));
  paths.go_by_tcp();
  return {};
}

Result<void> EndpointState::make_buffers() {
  const std::uint64_t size = messages.memory_bytes() + ControlLane::kMemoryBytes;
  HBMWIRE_TRY_ASSIGN(const Allocation memory, worker->context.allocate(MemoryType::host, size));
  if (link != nullptr) {
    HBMWIRE_TRY_ASSIGN(auto kept, registration::without_nic(memory, Error{}, Access::local_write));
    buffers = Region(std::move(kept));
  } else {
    HBMWIRE_TRY_ASSIGN(buffers, worker_nic.nic.register_memory(memory, Access::local_write));
  }
  const std::uint32_t key = buffers->state().local_key(*nic).value_or(0);
  auto* const at = std::bit_cast<std::byte*>(buffers->address());
  HBMWIRE_TRY(messages.set_memory(at, key));
  control.set_memory(at + messages.memory_bytes(), key);
  return {};
}

wire::EndpointOffer EndpointState::offer() const {
  wire::EndpointOffer own{.data = data_lane->local(),
                          .control = control.local(),
                          .reads_in = reads_of(nic->limits.reads_in),
                          .receive_depth = options.receive_depth,
                          .eager_bytes = options.eager_bytes,
                          .node = node_id(),
                          .rails = {}};
  own.nics[0] = worker->place_of(worker_nic);
  if (rails) rails->offer(own);
  return own;
}

/// Where the peer is. What can't be told is another node, which promises least.
Placement EndpointState::placement_of(const wire::EndpointOffer& theirs) const noexcept {
  if (theirs.data.incarnation == data->local().incarnation) return Placement::same_process;
  if (theirs.node != kUnknownNode && theirs.node == node_id()) return Placement::same_node;
  return Placement::two_nodes;
}

Result<void> EndpointState::take_socket(Fd fd) {
  if (link != nullptr) return link->start(std::move(fd));
  watch.keep_socket(std::move(fd));
  return {};
}

verbs::Wiring EndpointState::wiring_on(const NicState& on,
                                       const wire::EndpointOffer& theirs) const noexcept {
  verbs::Wiring wiring = timed(options);
  wiring.reads_in = reads_of(on.limits.reads_in);
  wiring.reads_out = std::min(reads_of(on.limits.reads_out), theirs.reads_in);
  return wiring;
}

Result<void> EndpointState::wire_up(const wire::EndpointOffer& theirs) {
  verbs::Wiring wiring = wiring_on(*nic, theirs);
  wiring.path = managed_path;
  wiring.local = control.local();
  wiring.remote = theirs.control;
  if (!managed_path) {
    wiring.receiver_retries = kWithoutEnd;
    HBMWIRE_TRY(control.connect(wiring));
    wiring.receiver_retries = verbs::Wiring{}.receiver_retries;
  }
  wiring.local = data->local();
  wiring.remote = theirs.data;
  return data->connect(wiring);
}

Result<void> EndpointState::connect(const wire::EndpointOffer& theirs) {
  // Over TCP the other end's NIC, if it has one, takes no part.
  if (link == nullptr) {
    HBMWIRE_TRY(verbs::check_link(*nic, data->local(), theirs.data));
    HBMWIRE_TRY(wire_up(theirs));
  }
  remote = theirs.data;
  paths.set_placement(placement_of(theirs));
  pieces.admit(paths.shares_pieces());
  constexpr std::uint64_t kMostBytes = 1ULL << 30;  // far from an Element's 32 bits
  longest_message = std::clamp<std::uint64_t>(
      std::min(data->local().max_message_bytes, theirs.data.max_message_bytes), 1, kMostBytes);
  messages.connect(theirs.receive_depth, theirs.eager_bytes, longest_message);
  if (rails && !rails->connect(theirs)) rails.reset();
  max_message = static_cast<std::uint32_t>(longest_message);
  set_movers();
  watch.note_activity(Clock::now());
  std::vector<std::string> names;
  if (rails) names = rails->names();
  if (!managed_path) worker->adopt(shared_from_this());
  // From here on it is the worker's, and nothing fails any more.
  EndpointLabel& label = *worker->labels.find(number);
  label.one_node = paths.placement() != Placement::two_nodes;
  label.one_process = paths.placement() == Placement::same_process;
  label.copies = paths.copies();
  label.shares = paths.shares();
  label.shares_first = paths.shares_first();
  label.rails = std::move(names);
  return {};
}

/// The ways of moving bytes, in the order in which they are asked. A further one is a row more.
void EndpointState::set_movers() {
  movers = {};
  if (paths.copies()) movers.add(copy);
  if (paths.shares()) movers.add(ipc);
  movers.add(*worker_nic.staged);
  movers.add(proxied);
  if (rails) movers.add(*rails);
}

Result<void> EndpointState::wire_control(const transport::CmPath& path) {
  verbs::Wiring wiring = timed(options);
  wiring.receiver_retries = kWithoutEnd;
  wiring.local = control.local();
  wiring.path = path.address;
  wiring.local.mtu_bytes = wiring.remote.mtu_bytes = path.mtu_bytes;
  wiring.local.packet_sequence = path.send_sequence;
  wiring.remote.packet_sequence = path.receive_sequence;
  wiring.remote.queue_pair = path.remote_queue_pair;
  wiring.receiver_retries = kWithoutEnd;
  HBMWIRE_TRY(control.connect(wiring));
  managed_path = path.address;
  watch.note_activity(Clock::now());
  worker->adopt(shared_from_this());
  return {};
}

void EndpointState::fail(const Error& why, TransferState* culprit) noexcept {
  ending.fail(why, culprit);
}

/// Those that wait fail when the endpoint has ended, unless the NIC has a part of them.
void EndpointState::fail_waiting() noexcept {
  while (!pending.empty()) {
    TransferState& transfer = pending.pop();
    // What is posted of it may still complete well, but the rest was not even begun.
    if (transfer.then == Then::over) transfer.then = Then::cut;
    if (transfer.parts == 0) ending.mark_failed(transfer);
  }
  messages.mark_failed();
  movers.cancel(*this);
  server.cancel();
}

void EndpointState::forget_posted() noexcept {
  for_each_posted([&](Posted& posted) {
    TransferState* const transfer = std::exchange(posted.transfer, nullptr);
    if (transfer != nullptr && --transfer->parts == 0 && !transfer->waiting)
      ending.mark_failed(*transfer);
  });
  forget_all();
}

bool EndpointState::is_busy() const noexcept {
  if (!pending.empty() || moving != 0 || messages.under_way()) return true;
  bool busy = false;
  for_each_posted([&](const Posted& posted) { busy = busy || posted.transfer != nullptr; });
  return busy;
}

bool EndpointState::waits_for_peer() const noexcept {
  return messages.under_way() || ipc.asks() || pieces.awaited();
}

// --- by the clock

EndpointState::Clock::time_point EndpointState::look_after(Clock::time_point at) noexcept {
  messages.warn_of_copies();
  warn_of_tcp();
  if (link != nullptr) watch.look_at_link(at);
  if (rails) rails->look_after(at);
  lists.drop_left();
  if (control.probes() && phase == EndpointPhase::ready) {
    watch.note_activity(at);
    control.advance_probe();
  } else if (phase == EndpointPhase::ready) {
    watch.look(at);
  }
  watch.end_look();
  ending.advance(at);
  if (ending.is_abandoned() && phase != EndpointPhase::ending) ending.close_lanes(at);
  return next_look(at);
}

EndpointState::Clock::time_point EndpointState::next_look(Clock::time_point at) const noexcept {
  // A connection is looked at as often as a share of what it has promised.
  constexpr int kLooks = 8;
  const auto share = std::clamp<std::chrono::nanoseconds>(
      std::min(options.peer_timeout, options.operation_timeout) / kLooks, 1ms, 250ms);
  if (phase == EndpointPhase::ready && !control.probes()) return at + share;
  if (phase == EndpointPhase::ready || phase == EndpointPhase::ending || ending.is_abandoned())
    return at + std::min<std::chrono::nanoseconds>(share, 10ms);
  return Clock::time_point::max();
}

void EndpointState::warn_of_tcp() noexcept {
  if (!device_over_tcp || std::exchange(warned_of_tcp, true)) return;
  log_line(LogLevel::warn, [&] {
    return "device memory goes to and from " + peer +
           (paths.placement() == Placement::two_nodes ? " by TCP"
                                                      : " by TCP or through shared host memory") +
           ", not zero-copy: one of both ends has no RDMA device";
  });
}

void EndpointState::on_lost(const transport::CompletionQueue& queue) noexcept {
  if (rails) rails->on_lost(queue);
  ending.on_lost(queue);
}

// --- the control lane

void EndpointState::on_said() noexcept {
  if (ending.is_abandoned()) worker->look_soon();
}

void EndpointState::on_control_lost(const Error& why) noexcept {
  // Who has said goodbye closes its lanes. What is under way here fails by itself, or does not.
  if (!ending.peer_left()) fail(why, nullptr);
  ending.advance(worker->now);
}

void EndpointState::break_protocol(const char* why) noexcept {
  fail(broken_protocol(why), nullptr);
}

Error EndpointState::broken_protocol(const char* why) const noexcept {
  return make_error(Errc::protocol, Stage::complete, why, peer, Hint::other_version);
}

}  // namespace hbmwire::detail
