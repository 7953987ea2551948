// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "verbs/calls.hpp"

namespace hbmwire::detail {

/// Each message of the control lane goes to the part that it is for.
void EndpointState::on_control(const wire::ControlMessage& message) {
  std::visit([this](const auto& kind) { on(kind); }, message);
}

void EndpointState::on_said() noexcept {
  if (abandoned) worker->look_soon();
}

void EndpointState::on_control_lost(const Error& why) noexcept {
  // Who has said goodbye closes its lanes. What is under way here fails by itself, or does not.
  if (!peer_left) fail(why, nullptr);
  if (phase == EndpointPhase::ending) go_on_ending(worker->now);
}

void EndpointState::on(const wire::Fence& /*message*/) noexcept {
  // The peer has closed its own lane before it said so.
  peer_fenced = true;
  must_answer = true;
  fail(make_error(Errc::peer_failed, Stage::complete, "the peer broke the connection off", peer,
                  Hint::peer_broke_off),
       nullptr);
  if (phase == EndpointPhase::ending) {
    go_on_ending(worker->now);
  } else if (close_data() && std::exchange(must_answer, false)) {
    // It had ended before; nothing of the application's is under way.
    control.say(wire::Fenced{});
  }
}

void EndpointState::on(const wire::Fenced& /*message*/) noexcept {
  peer_fenced = true;
  peer_quiet = true;
  if (phase == EndpointPhase::ending) go_on_ending(worker->now);
}

void EndpointState::on(const wire::RailDown& message) noexcept {
  if (!rails || !rails->on_down(message.rail))
    control.lose(broken_protocol("the peer ends a rail that there is not"));
}

void EndpointState::on(const wire::RailClosed& message) noexcept {
  if (rails) rails->on_closed(message.rail);
}

void EndpointState::on(const wire::Farewell& /*message*/) noexcept {
  peer_left = true;
  ++worker->event_count;
  worker->look_soon();
  if (phase != EndpointPhase::ready) return;
  if (mail.under_way() || asks_for_ipc() || pieces.awaited()) {
    // Nobody will answer.
    fail(make_error(Errc::peer_failed, Stage::complete, "the peer has said goodbye", peer,
                    Hint::peer_gone),
         nullptr);
  } else if (!is_busy()) {
    enter_closed();
  }
}

Error EndpointState::broken_protocol(const char* why) const noexcept {
  return make_error(Errc::protocol, Stage::complete, why, peer, Hint::other_version);
}

void EndpointState::on(const wire::Probe& message) noexcept { control.on_probe(message); }

void EndpointState::on(const wire::LookUp& message) { remote_regions.on_look_up(message); }

void EndpointState::on(const wire::Found& message) { remote_regions.on_found(message); }

}  // namespace hbmwire::detail
