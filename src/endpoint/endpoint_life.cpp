// SPDX-License-Identifier: MIT
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kControlBuffers = 8;  // each way: no end has more under way
// Beyond what the peer has credits for: messages that bring credits need none.
constexpr std::uint32_t kSpareReceives = 4;
constexpr std::uint32_t kInlineBytes = 128;
constexpr int kMostReads = 16;

/// Numbers connections, so that a RemoteRegion of one of them is no other's.
std::uint32_t next_number() noexcept {
  static std::atomic<std::uint32_t> number{0};
  return number.fetch_add(1, std::memory_order_relaxed) + 1;
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

std::uint8_t reads_of(int limit) noexcept {
  return static_cast<std::uint8_t>(std::clamp(limit, 1, kMostReads));
}

std::uint64_t message_bytes(const EndpointOptions& options) noexcept {
  constexpr std::uint64_t kLine = 64;
  return (wire::kMessageHeaderBytes + options.eager_bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

EndpointState::EndpointState(WorkerState& worker_of, WorkerNic& nic_of, EndpointOptions options_of)
    : worker(&worker_of),
      nic(&nic_of.nic.state()),
      number(next_number()),
      room(options_of.send_depth),
      ring_mask(std::bit_ceil(options_of.send_depth) - 1),
      ring(std::bit_ceil(options_of.send_depth)),
      worker_nic(nic_of),
      options(std::move(options_of)) {
  for (Posted& posted : ring) posted.endpoint = this;
}

EndpointState::~EndpointState() = default;

Result<std::shared_ptr<EndpointState>> EndpointState::create(
    const std::shared_ptr<WorkerState>& worker, const EndpointOptions& options) {
  HBMWIRE_TRY(check_options(options));
  WorkerNic& nic = worker->nics.front();
  auto endpoint = std::make_shared<EndpointState>(*worker, nic, options);
  const std::uint32_t receives = options.receive_depth + kSpareReceives;
  const auto places = static_cast<int>(options.send_depth + receives + 2 * kControlBuffers);
  HBMWIRE_TRY_ASSIGN(transport::CompletionQueue * completions,
                     worker->completions_for(nic, places));
  HBMWIRE_TRY_ASSIGN(endpoint->data_lane, transport::Lane::create(nic.nic, *completions,
                                                                  {.send_depth = options.send_depth,
                                                                   .receive_depth = receives,
                                                                   .inline_bytes = kInlineBytes}));
  HBMWIRE_TRY_ASSIGN(
      endpoint->control_lane,
      transport::Lane::create(nic.nic, *completions,
                              {.send_depth = kControlBuffers, .receive_depth = kControlBuffers}));
  endpoint->data = endpoint->data_lane.get();
  endpoint->inline_bytes = endpoint->data->inline_bytes;
  HBMWIRE_TRY(endpoint->make_buffers(receives));
  HBMWIRE_TRY(endpoint->post_receives());
  HBMWIRE_TRY(endpoint->post_control_receives());
  endpoint->keeps_worker = worker;
  return endpoint;
}

Result<void> EndpointState::make_buffers(std::uint32_t receives) {
  const std::uint64_t each = message_bytes(options);
  const std::uint64_t size =
      receives * each + std::uint64_t{2} * kControlBuffers * wire::kMaxControlBytes;
  HBMWIRE_TRY_ASSIGN(const Allocation memory, worker->context.allocate(MemoryType::host, size));
  HBMWIRE_TRY_ASSIGN(messages, worker_nic.nic.register_memory(memory, Access::local_write));
  const std::uint32_t key = *messages->state().local_key(*nic);
  auto* at = std::bit_cast<std::byte*>(messages->address());
  const auto cut = [&](std::vector<MessageBuffer>& into, std::uint32_t count, std::uint64_t bytes) {
    for (std::uint32_t i = 0; i < count; ++i, at += bytes) into.push_back({this, at, key});
  };
  cut(buffers, receives, each);
  cut(control_buffers, kControlBuffers, wire::kMaxControlBytes);
  cut(answer_buffers, kControlBuffers, wire::kMaxControlBytes);
  for (MessageBuffer& buffer : answer_buffers) free_answer_buffers.push_back(&buffer);
  return {};
}

wire::EndpointOffer EndpointState::offer() const {
  return {.data = data_lane->local,
          .control = control_lane->local,
          .reads_in = reads_of(nic->limits.reads_in),
          .receive_depth = options.receive_depth,
          .eager_bytes = options.eager_bytes};
}

Result<void> EndpointState::connect(const wire::EndpointOffer& theirs) {
  if (theirs.data.ethernet != data->local.ethernet) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::connect,
                   "one side's port is Ethernet (RoCE), the other's InfiniBand", nic->info.name,
                   Hint::qp_attributes));
  }
  verbs::Wiring wiring = timed(options);
  wiring.reads_in = reads_of(nic->limits.reads_in);
  wiring.reads_out = std::min(reads_of(nic->limits.reads_out), theirs.reads_in);
  wiring.local = control_lane->local;
  wiring.remote = theirs.control;
  HBMWIRE_TRY(control_lane->connect(wiring));
  wiring.local = data->local;
  wiring.remote = theirs.data;
  HBMWIRE_TRY(data->connect(wiring));
  remote = theirs.data;
  credits = theirs.receive_depth;
  options.eager_bytes = std::min(options.eager_bytes, theirs.eager_bytes);
  constexpr std::uint64_t kMostBytes = 1ULL << 30;  // far from ibv_sge's 32 bits
  max_message = std::clamp<std::uint64_t>(
      std::min(data->local.max_message_bytes, theirs.data.max_message_bytes), 1, kMostBytes);
  oldest = WorkerState::Clock::now();
  worker->adopt(shared_from_this());
  return {};
}

void EndpointState::fail(const Error& why, TransferState* of) noexcept {
  if (phase != EndpointPhase::ready) return;
  phase = EndpointPhase::ending;
  error = why;
  culprit = of;
  settle_by = Clock::now() + options.peer_timeout;
  if (const auto closed = data->to_error(); !closed)
    log_line(LogLevel::warn, describe(closed.error()));
  while (first_waiting != nullptr) {
    TransferState& transfer = *first_waiting;
    first_waiting = transfer.next;
    transfer.waiting = false;
    if (transfer.parts == 0) doom(transfer);
  }
  last_waiting = nullptr;
  if (!peer_fenced) say(wire::Fence{});
}

void EndpointState::doom(TransferState& transfer) noexcept {
  transfer.next = doomed;
  doomed = &transfer;
}

/// What those fail with that did not break the connection themselves.
Error EndpointState::error_of_others() const noexcept {
  if (error->code == Errc::peer_failed || error->code == Errc::timed_out) return *error;
  return make_error(Errc::cancelled, Stage::complete,
                    "another transfer of the endpoint failed or was cancelled", peer);
}

void EndpointState::go_on_ending(Clock::time_point at) noexcept {
  if (outstanding != 0) return;  // this side's memory may still be read
  if (must_answer) {
    must_answer = false;
    say(wire::Fenced{});
  }
  if (!peer_fenced && !control_dead && at < settle_by) return;
  phase = EndpointPhase::failed;
  const Error others = error_of_others();
  while (doomed != nullptr) {
    TransferState& transfer = *std::exchange(doomed, doomed->next);
    worker->fail(transfer, &transfer == culprit ? *error : others, peer_fenced);
  }
}

void EndpointState::look_after(Clock::time_point at) noexcept {
  if (phase == EndpointPhase::ready) {
    watch_peer(at);
  } else if (phase == EndpointPhase::ending) {
    go_on_ending(at);
  }
  if (abandoned && phase != EndpointPhase::ending) close_lanes(at);
}

void EndpointState::watch_peer(Clock::time_point at) noexcept {
  if (outstanding != 0 && at - oldest > options.operation_timeout) {
    fail(make_error(Errc::timed_out, Stage::complete, "not over within the operation's timeout",
                    peer, Hint::peer_slow),
         nullptr);
    return;
  }
  if (outstanding == 0 && at - oldest > options.peer_timeout / 2) {
    // A message of nothing, which the peer's NIC acknowledges without the peer's process.
    oldest = at;
    transport::Operation probe;
    probe.opcode = IBV_WR_RDMA_WRITE;
    post(probe, nullptr);
  }
  if (socket) watch_socket();
}

void EndpointState::watch_socket() noexcept {
  std::byte byte{};
  if (::recv(socket.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) < 0 &&
      (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  // Its goodbye, if there was one, came before, by the control lane: the next look takes it.
  if (!std::exchange(socket_ended, true)) return;
  socket.reset();
  if (peer_left) return;
  fail(make_error(Errc::peer_failed, Stage::complete, "the peer's process has ended", peer,
                  Hint::peer_gone),
       nullptr);
}

void EndpointState::abandon() noexcept {
  if (abandoned) return;
  abandoned = true;
  settle_by = Clock::now() + options.peer_timeout;
  if (phase == EndpointPhase::ready) {
    if (outstanding == 0 && first_waiting == nullptr) {
      phase = EndpointPhase::closed;
      say(wire::Farewell{});
    } else {
      fail(make_error(Errc::cancelled, Stage::complete, "the endpoint was destroyed", peer),
           nullptr);
    }
  }
}

void EndpointState::close_lanes(Clock::time_point at) noexcept {
  const bool said = free_answer_buffers.size() == answer_buffers.size() && to_say.empty();
  if (closing_lanes || (!said && !control_dead && at < settle_by)) return;
  closing_lanes = true;
  for (transport::Lane* const lane : {data_lane.get(), control_lane.get()}) {
    if (const auto closed = lane->to_error(); !closed)
      log_line(LogLevel::warn, describe(closed.error()));
  }
}

}  // namespace hbmwire::detail
