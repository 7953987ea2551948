// SPDX-License-Identifier: MIT
#include "endpoint/peer_watch.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

using namespace std::chrono_literals;

PeerWatch::PeerWatch(EndpointState& endpoint) noexcept
    : endpoint_(endpoint), watches_(endpoint.options.operation_timeout) {}

PeerWatch::~PeerWatch() { forget_socket(); }

void PeerWatch::fail(Errc code, const char* why, Hint hint) noexcept {
  endpoint_.fail(make_error(code, Stage::complete, why, endpoint_.peer, hint), nullptr);
}

void PeerWatch::keep_socket(Fd fd) {
  socket_ = std::move(fd);
  // If epoll cannot take the socket, only look() reads it, by the clock.
  if (socket_) {
    static_cast<void>(endpoint_.worker->sockets.watch(socket_.get(), EPOLLIN | EPOLLRDHUP, *this));
  }
}

void PeerWatch::keep_cm(std::unique_ptr<CmLink> link) noexcept { cm_link_ = std::move(link); }

void PeerWatch::forget_socket() noexcept {
  if (!socket_) return;
  endpoint_.worker->sockets.forget(socket_.get());
  socket_.reset();
}

void PeerWatch::on_socket() noexcept {
  if (!socket_) return;
  // Bytes only wake this end, and have no meaning.
  std::array<std::byte, 256> bytes{};
  const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  forget_socket();
  see_end();
}

void PeerWatch::see_end() noexcept {
  if (end_ != End::none) return;
  endpoint_.movers.ring.take_all();
  end_ = End::seen;
  endpoint_.note_event();
}

void PeerWatch::end_look() noexcept {
  if (end_ != End::seen) return;
  end_ = End::looked;
  endpoint_.look_soon();
}

/// The peer's machine answers for the peer, whatever the process does. TCP itself waits some
/// hundred milliseconds for a lost packet and a delayed acknowledgement, so shorter bounds would be
/// wrong.
void PeerWatch::look_at_link(Clock::time_point at) noexcept {
  constexpr std::chrono::nanoseconds kLeast = 1s;
  transport::TcpLink& link = *endpoint_.link;
  ControlLane& control = endpoint_.control;
  if (link.fault() && !control.is_dead()) {
    if (link.fault()->code == Errc::peer_failed) {
      control.silence();
      see_end();
    } else if (!control.is_closing()) {
      control.lose(*link.fault());
    }
  }
  if (endpoint_.phase != EndpointPhase::ready) return;
  const std::chrono::nanoseconds bound =
      std::max<std::chrono::nanoseconds>(endpoint_.options.peer_timeout, kLeast);
  // A peer on this machine has no other machine that could be gone.
  if (!endpoint_.paths.by_tcp() && endpoint_.paths.placement() != Placement::two_nodes) return;
  // After a long gap between two looks, the known acknowledgements are old: this end asks now, and
  // judges at the next look.
  const bool late = at - asked_machine_at_ > bound / 2;
  if (at - asked_machine_at_ >= bound / 4) {
    asked_machine_at_ = at;
    link.ask_machine();
  }
  // Half of the bound, the quarter between two questions, and the time to the next look (an eighth)
  // are together within the bound.
  if (late || !link.is_silent(at, bound / 2)) return;
  control.silence();  // sends no more, since no message would arrive
  fail(Errc::peer_failed, "the peer's machine acknowledges none of the bytes sent to it",
       Hint::peer_gone);
}

void PeerWatch::look(Clock::time_point at) noexcept {
  const bool peer_left = endpoint_.ending.peer_left();
  if (peer_left && !endpoint_.is_busy()) return endpoint_.ending.enter_closed();
  if (socket_) on_socket();
  // After the peer's goodbye a NIC still completes the requests under way, and TCP does not.
  // Messages that wait for an answer get none in either case.
  const bool asks_in_vain =
      peer_left && (endpoint_.messages.unanswered(at, 0ns) != nullptr ||
                    endpoint_.movers.ipc.asks() || endpoint_.wiring.late().wait_for_peer());
  if (asks_in_vain || (peer_has_ended() && (!peer_left || endpoint_.paths.by_tcp()))) {
    return fail(Errc::peer_failed,
                peer_left ? "the peer has said goodbye" : "the peer's process has ended",
                Hint::peer_gone);
  }
  look_at_operations(at);
  if (endpoint_.phase == EndpointPhase::ready) look_at_queue_pair(at);
  if (endpoint_.link != nullptr || endpoint_.phase != EndpointPhase::ready) return;
  if (endpoint_.sends.outstanding() != 0 || endpoint_.sends.head() != seen_head_) {
    seen_head_ = endpoint_.sends.head();
    idle_since_ = at;
  } else if (at - idle_since_ >= endpoint_.options.peer_timeout / 4) {
    // A quarter, plus the retries (half of peer_timeout at most), plus the time to the next look is
    // less than peer_timeout.
    idle_since_ = at;
    keep_alive();
  }
}

void PeerWatch::look_at_operations(Clock::time_point at) noexcept {
  const auto bound = endpoint_.options.operation_timeout;
  const auto posted =
      watches_.posted.look(endpoint_.sends.asked(), endpoint_.sends.asked_over(), at);
  const auto waited =
      watches_.queued.look(endpoint_.pending.queued(), endpoint_.pending.unqueued(), at);
  // The NIC has sent the message, and the peer has not answered.
  TransferState* const unanswered = endpoint_.messages.unanswered(at, bound);
  const bool late = endpoint_.wiring.late().wait_longer_than(bound, at);
  if (std::max(posted, waited) <= bound && unanswered == nullptr && !late) return;
  TransferState* const oldest = posted > bound   ? endpoint_.sends.oldest()
                                : waited > bound ? endpoint_.pending.first()
                                                 : unanswered;
  endpoint_.fail(
      make_error(Errc::timed_out, Stage::complete, "not over within the operation's timeout",
                 endpoint_.peer, Hint::peer_slow),
      oldest);
}

/// A NIC whose completion queue has overrun stops, and cannot report it. This notices.
void PeerWatch::look_at_queue_pair(Clock::time_point at) noexcept {
  const auto bound = endpoint_.options.peer_timeout;
  const bool silent =
      watches_.requests.look(endpoint_.sends.head(), endpoint_.sends.over(), at) > bound &&
      endpoint_.sends.lane().in_error();
  if (!silent) return;
  // The completion that tells of the error may still be under way: acts at the second look.
  if (!std::exchange(stuck_, true)) return;
  fail(Errc::system, "the queue pair broke, and its completion queue brings nothing",
       Hint::completions_lost);
  endpoint_.sends.lane().completions().lose();
  endpoint_.ending.cut_lanes();
}

void PeerWatch::wake_peer() noexcept {
  if (endpoint_.link != nullptr) return endpoint_.link->ask_machine();
  // If the socket has no room, it has enough bytes to wake the peer.
  const std::byte byte{};
  if (socket_)
    static_cast<void>(::send(socket_.get(), &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void PeerWatch::keep_alive() noexcept {
  // An empty WRITE, which the peer's NIC acknowledges without the peer's process.
  transport::Operation nothing;
  nothing.opcode = transport::Opcode::write;
  if (const int result = endpoint_.sends.post(nothing, nullptr); result != 0)
    endpoint_.fail(endpoint_.post_error(result), nullptr);
}

}  // namespace hbmwire::detail
