// SPDX-License-Identifier: MIT
#include "endpoint/hailing.hpp"

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

void EndpointState::on(const wire::Hail& message) noexcept {
  if (hailing && !hailing->heard && wire::equal(message.proof, hailing->hails.theirs)) {
    hailing->heard = true;
    hailed = true;
    worker->look_soon();
    return;
  }
  lose_control(make_error(Errc::permission_denied, Stage::connect,
                          "somebody else than the invited peer hails this end", peer,
                          Hint::invitation));
}

void EndpointState::go_on_hailing(Clock::time_point at) noexcept {
  idle_since = at;
  Hailing& hail = *hailing;
  if (hail.failed && control_posted == 0) {
    hail.failed = false;
    hail.said = false;
    if (const auto again = wire_control_again(); !again) {
      lose_control(again.error());
      return;
    }
  }
  if (!hail.said && !hail.failed && (hail.hails.first || hail.heard)) {
    hail.said = true;
    say(wire::Hail{hail.hails.own});
  }
  // From here on a failure of the control lane is the peer's.
  if (hail.heard && hail.said) hailing.reset();
}

Result<void> EndpointState::wire_control_again() {
  HBMWIRE_TRY(control_lane->restart());
  HBMWIRE_TRY(post_control_receives());
  return control_lane->connect(control_lane->wiring);
}

}  // namespace hbmwire::detail
