// SPDX-License-Identifier: MIT
#include "endpoint/endpoint_state.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "base/log.hpp"
#include "base/node_id.hpp"
#include "context/path_policy.hpp"
#include "registration/register.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

/// A number for each connection, so that a RemoteRegion of one connection fits no other.
std::uint32_t next_number() noexcept {
  static std::atomic<std::uint32_t> number{0};
  // Leaves out the flag that RemoteRegionState::connection has beside the number.
  return (number.fetch_add(1, std::memory_order_relaxed) + 1) & ~kByEngine;
}

/// The options with 0 eager bytes if the policy excludes copies of device memory. That number tells
/// the sender to send no message unasked.
EndpointOptions with_policy(EndpointOptions options, const Context& context) {
  // gaudi stands for every type of device: policies tell only host memory from devices' memory.
  const auto admits = [&](Path path) {
    return options.paths.admits(MemoryType::gaudi, path) &&
           context.paths().admits(MemoryType::gaudi, path);
  };
  const bool devices = admits(Path::zero_copy) || admits(Path::peer_memory);
  if (devices && !admits(Path::staged)) options.eager_bytes = 0;
  return options;
}

}  // namespace

Result<void> check_options(const EndpointOptions& options, const WorkerState& worker) {
  const auto refuse = [](const char* why, const char* which) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure, why, which));
  };
  constexpr std::uint32_t kMostRequests = 16384;
  if (options.send_depth < 2 || options.send_depth > kMostRequests)
    return refuse("a send queue has 2 to 16384 requests", "send_depth");
  if (options.receive_depth < 4 || options.receive_depth > kMostRequests)
    return refuse("a receive queue has 4 to 16384 places", "receive_depth");
  if (options.eager_bytes > worker.options.eager_bytes)
    return refuse("larger than the worker's receives: WorkerOptions::eager_bytes", "eager_bytes");
  if (options.unexpected_bytes > (1U << 30U))
    return refuse("at most 1 GiB is set aside for unexpected messages", "unexpected_bytes");
  if (options.peer_timeout < 10ms || options.operation_timeout < 10ms)
    return refuse("a timeout is at least 10 ms", "peer_timeout, operation_timeout");
  return validate(options.paths, worker.context.paths());
}

EndpointState::EndpointState(WorkerState& its_worker, WorkerNic& first_nic,
                             EndpointOptions its_options)
    : worker(&its_worker),
      counts(&its_worker.counts.own()),
      nic(&state_of(first_nic.nic)),
      number(next_number()),
      sends(*this, its_options.send_depth),
      messages(*this, its_options),
      worker_nic(first_nic),
      options(std::move(its_options)) {}

EndpointState::~EndpointState() {
  worker->counts.end_endpoint(*counts);
  worker->labels.leave(number, worker->transfers);
  worker->transfers.trace().remove_peer(number);
}

Result<std::shared_ptr<EndpointState>> EndpointState::create(
    const std::shared_ptr<WorkerState>& worker, const EndpointOptions& options,
    std::span<WorkerNic* const> nics, bool late) {
  HBMWIRE_TRY(check_options(options, *worker));
  WorkerNic& nic = *nics.front();
  auto endpoint =
      std::make_shared<EndpointState>(*worker, nic, with_policy(options, worker->context));
  HBMWIRE_TRY(endpoint->paths.set_policies(options.paths, worker->context.paths()));
  HBMWIRE_TRY(endpoint->wiring.make(nics.subspan(1), late));
  endpoint->keeps_worker = worker;
  return endpoint;
}

void EndpointState::fail(const Error& why, TransferState* culprit) noexcept {
  // The application knows only the whole transfer.
  const bool is_part = culprit != nullptr && (culprit->at_end & AtEnd::kPart) != 0;
  ending.fail(why, is_part ? &worker->transfers[culprit->cookie] : culprit);
}

/// Waiting transfers fail when the endpoint has ended, unless the NIC has a part of them.
void EndpointState::fail_waiting() noexcept {
  while (!pending.empty()) {
    TransferState& transfer = pending.pop();
    // Its posted requests may still succeed, but the rest never began.
    if (transfer.then == Then::over) transfer.then = Then::cut;
    transfer.mover->abandon(transfer);
    if (transfer.parts == 0) ending.mark_failed(transfer);
  }
  messages.mark_failed();
  movers.table.cancel(*this);
  movers.server.cancel();
}

void EndpointState::forget_posted() noexcept {
  sends.forget_all([this](TransferState& transfer) {
    if (--transfer.parts == 0 && !transfer.waiting) ending.mark_failed(transfer);
  });
}

bool EndpointState::is_busy() const noexcept {
  return !pending.empty() || movers.moving != 0 || messages.under_way() ||
         sends.oldest() != nullptr;
}

bool EndpointState::waits_for_peer() const noexcept {
  return messages.under_way() || movers.ipc.asks() || movers.pieces.awaited() ||
         wiring.late().wait_for_peer();
}

// --- by the clock

EndpointState::Clock::time_point EndpointState::look_after(Clock::time_point at) noexcept {
  messages.inbox().warn_of_copies();
  checks.warn_of_tcp();
  if (link != nullptr) watch.look_at_link(at);
  if (movers.rails) movers.rails->look_after(at);
  movers.shared.look();
  movers.ring.look();
  lists.drop_left();
  if (phase == EndpointPhase::ready && !pending.empty()) post_waiting();
  if (control.probes() && phase == EndpointPhase::ready) {
    watch.note_activity(at);
    control.advance_probe();
  } else if (phase == EndpointPhase::ready) {
    watch.look(at);
  }
  watch.end_look();
  ending.advance(at);
  if (ending.is_abandoned() && phase != EndpointPhase::ending) {
    ending.close_lanes(at);
    ending.drain_receives(at);
  }
  return next_look(at);
}

EndpointState::Clock::time_point EndpointState::next_look(Clock::time_point at) const noexcept {
  // A connection is looked at several times within each time that it promises.
  constexpr int kLooks = 8;
  const auto share = std::clamp<std::chrono::nanoseconds>(
      std::min(options.peer_timeout, options.operation_timeout) / kLooks, 1ms, 250ms);
  if (phase == EndpointPhase::ready && !control.probes()) return at + share;
  // Only messages that the program holds are left. Letting go of them makes the endpoint due again.
  if (ending.is_over() && ending.are_receives_back() && !messages.none_handed_out())
    return Clock::time_point::max();
  // Each step of probing or ending may be possible soon.
  if (phase == EndpointPhase::ready || phase == EndpointPhase::ending || ending.is_abandoned())
    return at + std::min<std::chrono::nanoseconds>(share, 10ms);
  return Clock::time_point::max();
}

void EndpointState::on_lost(const transport::CompletionQueue& queue) noexcept {
  if (movers.rails) movers.rails->on_lost(queue);
  ending.on_lost(queue);
}

// --- the control lane

void EndpointState::on_said() noexcept {
  if (ending.is_abandoned()) look_soon();
}

void EndpointState::on_control_lost(const Error& why) noexcept {
  // A peer that has said goodbye closes its lanes, which is no failure. Requests under way here
  // then fail, or succeed, by themselves.
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
