// SPDX-License-Identifier: MIT
#include "endpoint/goodbye.hpp"

#include "endpoint/endpoint_state.hpp"
#include "endpoint/longest_end.hpp"

namespace hbmwire::detail {

Goodbye::Goodbye(EndpointState& endpoint, const Deadline& until) noexcept
    : Task(*endpoint.worker, until.when(), "close"),
      endpoint_(endpoint),
      until_(until),
      was_ready_(endpoint.phase == EndpointPhase::ready) {}

void Goodbye::look_after(Clock::time_point at) noexcept {
  if (over()) return;
  const bool late = at >= until_.when();
  Ending& ending = endpoint_.ending;
  if (step_ == Step::busy) {
    const bool ready = endpoint_.phase == EndpointPhase::ready;
    if (ready && endpoint_.is_busy()) {
      if (!late) return;
      stop(WorkerWaiting::out_of_time());
    } else if (ready) {
      ending.enter_closed();
      step_ = Step::parting;
    } else {
      stop(std::nullopt);
    }
  }
  if (step_ == Step::parting) {
    // If the program has let go of the endpoint, there is nothing to wait for any more.
    if (ending.peer_left() || ending.is_abandoned()) {
      stop(std::nullopt);
    } else if (ending.no_goodbye_comes()) {
      stop(make_error(Errc::peer_failed, Stage::complete, "the peer went without a goodbye",
                      endpoint_.peer, Hint::peer_gone));
    } else if (late) {
      stop(WorkerWaiting::out_of_time());
    } else {
      return;
    }
  }
  // Waits for peer_timeout at most, even beyond the deadline: memory of reported transfers must not
  // change any more.
  if (endpoint_.phase == EndpointPhase::ending && at < settled_by_.when()) return;
  finish();
}

void Goodbye::finish() noexcept {
  if (over()) return;
  Ending& ending = endpoint_.ending;
  endpoint_.phase = EndpointPhase::closed;
  ending.abandon();
  if (why_) return fail(Error(*why_));
  if (was_ready_ && ending.error()) return fail(Error(*ending.error()));
  succeed();
}

void Goodbye::stop(const std::optional<Error>& why) noexcept {
  why_ = why;
  step_ = Step::settling;
  settled_by_ = longest_end(endpoint_.options);
  set_due(settled_by_.when());
  endpoint_.ending.close_here(why);
}

void Goodbye::give_up(const Error& why) noexcept {
  if (step_ != Step::settling) stop(why);
  look_after(std::chrono::steady_clock::now());
}

}  // namespace hbmwire::detail
