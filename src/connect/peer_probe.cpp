// SPDX-License-Identifier: MIT
#include "connect/peer_probe.hpp"

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

void EndpointState::on(const wire::Probe& message) noexcept {
  if (peer_probe && !peer_probe->heard && wire::equal(message.proof, peer_probe->hails.theirs)) {
    peer_probe->heard = true;
    probed = true;
    worker->look_soon();
    return;
  }
  lose_control(make_error(Errc::permission_denied, Stage::connect,
                          "somebody else than the invited peer hails this end", peer,
                          Hint::invitation));
}

void EndpointState::go_on_probing(Clock::time_point at) noexcept {
  idle_since = at;
  PeerProbe& hail = *peer_probe;
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
    say(wire::Probe{hail.hails.own});
  }
  // From here on a failure of the control lane is the peer's.
  if (hail.heard && hail.said) peer_probe.reset();
}

Result<void> EndpointState::wire_control_again() {
  HBMWIRE_TRY(control_lane->restart());
  HBMWIRE_TRY(post_control_receives());
  return control_lane->connect(control_lane->wiring);
}

}  // namespace hbmwire::detail
