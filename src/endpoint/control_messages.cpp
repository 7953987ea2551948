// SPDX-License-Identifier: MIT
#include "endpoint/control_messages.hpp"

#include <variant>

#include "connect/cm_link.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

/// Hands each message of the control lane to the part of the endpoint that handles it.
struct Recipient {
  void operator()(const wire::Probe& message) const { endpoint.control.on_probe(message); }

  void operator()(const wire::Fence& /*message*/) const { endpoint.ending.on_fence(); }

  void operator()(const wire::Fenced& /*message*/) const { endpoint.ending.on_fenced(); }

  void operator()(const wire::Farewell& /*message*/) const { endpoint.ending.on_farewell(); }

  void operator()(const wire::LookUp& message) const {
    endpoint.remote_regions.on_look_up(message);
  }

  void operator()(const wire::Found& message) const { endpoint.remote_regions.on_found(message); }

  void operator()(const wire::Shake& message) const {
    if (endpoint.wiring.handshake() == nullptr) return refuse("the peer shakes hands again");
    endpoint.wiring.handshake()->on_shake(message.bytes);
  }

  void operator()(const wire::RailDown& message) const {
    if (!endpoint.movers.rails || !endpoint.movers.rails->on_down(message.rail))
      refuse("the peer closed a rail that does not exist");
  }

  void operator()(const wire::RailClosed& message) const {
    if (endpoint.movers.rails) endpoint.movers.rails->on_closed(message.rail);
  }

  void operator()(const wire::IpcCopy& message) const { endpoint.movers.ipc.on(message); }

  void operator()(const wire::IpcCopied& message) const { endpoint.movers.ipc.on(message); }

  void operator()(const wire::SharePieces& message) const { endpoint.movers.pieces.on(message); }

  void operator()(const wire::PiecesShared& message) const { endpoint.movers.pieces.on(message); }

  void operator()(const wire::QueuePairs& message) const { endpoint.wiring.late().on(message); }

  void operator()(const wire::QueuePairsReady& /*message*/) const {
    endpoint.wiring.late().on_ready();
  }

  void refuse(const char* why) const { endpoint.break_protocol(why); }

  EndpointState& endpoint;
};

}  // namespace

void take_control_message(EndpointState& endpoint, const wire::ControlMessage& message) {
  std::visit(Recipient{endpoint}, message);
}

}  // namespace hbmwire::detail
