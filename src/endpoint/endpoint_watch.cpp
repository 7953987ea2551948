// SPDX-License-Identifier: MIT
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "endpoint/endpoint_state.hpp"

// What an endpoint looks after by the clock. Nothing here depends on what the peer's process does:
// one that is stopped or busy is not gone.
namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

/// How often a connection is looked at: a share of what it has promised.
std::chrono::nanoseconds share_of(const EndpointOptions& options) noexcept {
  constexpr int kLooks = 8;
  return std::clamp<std::chrono::nanoseconds>(
      std::min(options.peer_timeout, options.operation_timeout) / kLooks, 1ms, 250ms);
}

}  // namespace

EndpointState::Clock::time_point EndpointState::look_after(Clock::time_point at) noexcept {
  warn_of_copies();
  if (link != nullptr) watch_link(at);
  if (rails) rails->look_after(at);
  std::erase_if(left_requests, [](const auto& request) { return !request->under_way(); });
  if (control.probes() && phase == EndpointPhase::ready) {
    idle_since = at;
    control.advance_probe();
  } else if (phase == EndpointPhase::ready) {
    watch_peer(at);
  }
  if (socket_end == SocketEnd::seen) {
    socket_end = SocketEnd::looked;
    worker->look_soon();
  }
  if (phase == EndpointPhase::ending) go_on_ending(at);
  if (abandoned && phase != EndpointPhase::ending) close_lanes(at);
  return next_look(at);
}

EndpointState::Clock::time_point EndpointState::next_look(Clock::time_point at) const noexcept {
  if (phase == EndpointPhase::ready && !control.probes()) return at + share_of(options);
  if (phase == EndpointPhase::ready || phase == EndpointPhase::ending || abandoned)
    return at + std::min<std::chrono::nanoseconds>(share_of(options), 10ms);
  return Clock::time_point::max();
}

/// The peer's machine answers for it, whatever its process does. TCP's own patience with a lost
/// packet and a delayed acknowledgement is some hundred milliseconds.
void EndpointState::watch_link(Clock::time_point at) noexcept {
  constexpr std::chrono::nanoseconds kLeast = 1s;
  if (link->fault() && !control.is_dead()) {
    if (link->fault()->code == Errc::peer_failed) {
      control.silence();
      see_end();
    } else if (!control.is_closing()) {
      control.lose(*link->fault());
    }
  }
  if (phase != EndpointPhase::ready) return;
  const std::chrono::nanoseconds bound =
      std::max<std::chrono::nanoseconds>(options.peer_timeout, kLeast);
  // Who has not looked for long knows only by the next look what has been answered meanwhile.
  const bool late = at - asked_machine_at > bound / 2;
  if (at - asked_machine_at >= bound / 4) {
    asked_machine_at = at;
    link->ask_machine();
  }
  if (late || !link->is_silent(at, bound / 2)) return;
  control.silence();  // whatever is said to it
  fail(make_error(Errc::peer_failed, Stage::complete,
                  "the peer's machine acknowledges nothing of what is sent to it", peer,
                  Hint::peer_gone),
       nullptr);
}

void EndpointState::watch_peer(Clock::time_point at) noexcept {
  if (peer_left && !is_busy()) {
    enter_closed();
    return;
  }
  if (socket) watch_socket();
  // What its peer said last, a goodbye perhaps, came before, by the control lane: it has been
  // polled for since the end was seen.
  // After a goodbye a NIC still tells how what is under way ends; over TCP nothing does any more.
  if (socket_end == SocketEnd::looked && (!peer_left || link != nullptr)) {
    const char* const why =
        peer_left ? "the peer has said goodbye" : "the peer's process has ended";
    fail(make_error(Errc::peer_failed, Stage::complete, why, peer, Hint::peer_gone), nullptr);
    return;
  }
  watch_operations(at);
  if (link != nullptr || phase != EndpointPhase::ready) return;
  if (outstanding() != 0 || head != seen_head) {
    seen_head = head;
    idle_since = at;
  } else if (at - idle_since >= options.peer_timeout / 4) {
    // With its own time, half of peer_timeout at most, and a look's share it stays within it.
    idle_since = at;
    keep_alive();
  }
}

void EndpointState::watch_operations(Clock::time_point at) noexcept {
  if (phase != EndpointPhase::ready) return;
  const auto posted = watches.posted.look(head - unasked, over - unasked_over, at);
  const auto waited = watches.queued.look(queued, unqueued, at);
  // What the NIC has sent, and the peer has not answered.
  TransferState* unanswered = watches.sent.look(mail.sent, at, options.operation_timeout);
  if (TransferState* const asked =
          watches.clearing.look(mail.clearing, at, options.operation_timeout);
      asked != nullptr) {
    unanswered = asked;
  }
  if (std::max(posted, waited) > options.operation_timeout || unanswered != nullptr) {
    TransferState* const oldest = posted > options.operation_timeout   ? oldest_posted()
                                  : waited > options.operation_timeout ? first_waiting
                                                                       : unanswered;
    fail(make_error(Errc::timed_out, Stage::complete, "not over within the operation's timeout",
                    peer, Hint::peer_slow),
         oldest);
    return;
  }
  // A NIC whose completion queue has overrun breaks off, and has no way to say so.
  const bool silent =
      watches.requests.look(head, over, at) > options.peer_timeout && data->in_error();
  if (silent && std::exchange(stuck, true)) {
    fail(make_error(Errc::system, Stage::complete,
                    "the queue pair broke, and its completion queue brings nothing", peer,
                    Hint::completions_lost),
         nullptr);
    data->completions->lose();
    cut_lanes();
  }
}

void EndpointState::keep_alive() noexcept {
  // A message of nothing, which the peer's NIC acknowledges without the peer's process.
  transport::Operation nothing;
  nothing.opcode = IBV_WR_RDMA_WRITE;
  if (const int result = post(nothing, nullptr); result != 0)
    fail(system_error(Stage::post, "ibv_post_send", result, nic->info.name), nullptr);
}

void EndpointState::keep_socket(Fd fd) {
  socket = std::move(fd);
  socket_watch.endpoint = this;
  // Without a place in the set it is looked at by the clock alone.
  if (socket)
    static_cast<void>(worker->sockets.watch(socket.get(), EPOLLIN | EPOLLRDHUP, socket_watch));
}

void EndpointState::SocketWatch::on_socket() noexcept { endpoint->watch_socket(); }

void EndpointState::watch_socket() noexcept {
  std::byte byte{};
  if (!socket || (::recv(socket.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) < 0 &&
                  (errno == EAGAIN || errno == EINTR))) {
    return;
  }
  worker->sockets.forget(socket.get());
  socket.reset();
  see_end();
}

void EndpointState::see_end() noexcept {
  if (socket_end != SocketEnd::none) return;
  socket_end = SocketEnd::seen;
  ++worker->event_count;
  worker->look_soon();
}

void EndpointState::on_lost(const transport::CompletionQueue& lost) noexcept {
  if (rails) rails->on_lost(lost);
  if (lanes_cut || data->completions != &lost) return;
  fail(make_error(Errc::system, Stage::complete, "the completion queue can't be polled",
                  nic->info.name, Hint::completions_lost),
       nullptr);
  cut_lanes();
  if (phase == EndpointPhase::ending) report();
}

}  // namespace hbmwire::detail
