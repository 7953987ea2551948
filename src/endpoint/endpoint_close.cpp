// SPDX-License-Identifier: MIT
#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/longest_end.hpp"

namespace hbmwire::detail {

bool EndpointState::is_busy() const noexcept {
  if (first_waiting != nullptr || moving != 0 || mail.under_way()) return true;
  bool busy = false;
  for_each_posted([&](const Posted& posted) { busy = busy || posted.transfer != nullptr; });
  return busy;
}

void EndpointState::enter_closed() noexcept {
  phase = EndpointPhase::closed;
  ++worker->event_count;
  worker->look_soon();
  fail_receives(
      peer_left ? make_error(Errc::peer_failed, Stage::complete, "the peer has closed the endpoint",
                             peer, Hint::peer_gone)
                : make_error(Errc::cancelled, Stage::complete, "the endpoint was closed", peer));
  say_farewell();
}

void EndpointState::say_farewell() noexcept {
  if (!std::exchange(said_farewell, true)) control.say(wire::Farewell{});
}

Result<void> EndpointState::close(const Wait& wait) {
  HBMWIRE_TRY(worker->check_process(Stage::complete));
  const bool was_ready = phase == EndpointPhase::ready;
  const Result<void> parted = was_ready ? part(wait) : Result<void>{};
  closed_here = true;
  if (phase == EndpointPhase::ready) fail(parted.error(), nullptr);
  if (phase == EndpointPhase::ending) {
    // Bounded by peer_timeout, and not by `wait`: what is reported must not change any more.
    static_cast<void>(
        worker->drive({longest_end(options), -1}, [&] { return phase != EndpointPhase::ending; }));
  }
  phase = EndpointPhase::closed;
  abandon();
  if (!parted) return tl::make_unexpected(parted.error());
  if (was_ready && error) return tl::make_unexpected(*error);
  return {};
}

/// Waits for what is under way, and for the other side's goodbye.
Result<void> EndpointState::part(const Wait& wait) {
  HBMWIRE_TRY(worker->drive(wait, [&] { return phase != EndpointPhase::ready || !is_busy(); }));
  if (phase != EndpointPhase::ready) return {};
  enter_closed();
  HBMWIRE_TRY(worker->drive(wait, [&] {
    return peer_left || control.is_dead() || peer_fenced || socket_end == SocketEnd::looked;
  }));
  if (peer_left) return {};
  return tl::make_unexpected(make_error(Errc::peer_failed, Stage::complete,
                                        "the peer went without a goodbye", peer, Hint::peer_gone));
}

void EndpointState::abandon() noexcept {
  // A child by fork(2) drops its copy, and says nothing in its parent's name.
  if (abandoned || worker->made.is_inherited()) return;
  abandoned = true;
  settle_by = Deadline::later(Clock::now(), options.peer_timeout);
  worker->look_soon();
  if (phase != EndpointPhase::ready) return;
  if (is_busy()) {
    fail(make_error(Errc::cancelled, Stage::complete, "the endpoint was destroyed", peer), nullptr);
  } else {
    enter_closed();
  }
}

void EndpointState::close_lanes(Clock::time_point at) noexcept {
  const bool said = control.has_said_all();
  if (control.is_closing() || lanes_cut || (!said && !control.is_dead() && at < settle_by)) return;
  if (!close_data()) return;
  control.close();
}

void EndpointState::cut_lanes() noexcept {
  if (std::exchange(lanes_cut, true)) return;
  worker->look_soon();
  data_lane->cut();
  control.cut();
  for_each_posted([&](Posted& posted) {
    TransferState* const transfer = std::exchange(posted.transfer, nullptr);
    if (transfer != nullptr && --transfer->parts == 0 && !transfer->waiting) mark_failed(*transfer);
  });
  forget_all();
  if (rails) rails->cut();
}

void EndpointState::end_now() noexcept {
  fail(make_error(Errc::cancelled, Stage::complete, "the worker has gone", peer), nullptr);
  cut_lanes();
  if (phase == EndpointPhase::ending) report();
}

}  // namespace hbmwire::detail
