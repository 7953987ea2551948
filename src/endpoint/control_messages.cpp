// SPDX-License-Identifier: MIT
#include <variant>

#include "connect/cm_link.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

/// Each message of the control lane, and the part of the endpoint that it is for.
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
    if (endpoint.shaking == nullptr) return refuse("the peer shakes hands again");
    endpoint.shaking->on_shake(message.bytes);
  }

  void operator()(const wire::RailDown& message) const {
    if (!endpoint.rails || !endpoint.rails->on_down(message.rail))
      refuse("the peer closed a rail that does not exist");
  }

  void operator()(const wire::RailClosed& message) const {
    if (endpoint.rails) endpoint.rails->on_closed(message.rail);
  }

  void operator()(const wire::IpcCopy& message) const { endpoint.ipc.on(message); }

  void operator()(const wire::IpcCopied& message) const { endpoint.ipc.on(message); }

  void operator()(const wire::SharePieces& message) const { endpoint.pieces.on(message); }

  void operator()(const wire::PiecesShared& message) const { endpoint.pieces.on(message); }

  void refuse(const char* why) const { endpoint.control.lose(endpoint.broken_protocol(why)); }

  EndpointState& endpoint;
};

}  // namespace

void EndpointState::on_control(const wire::ControlMessage& message) {
  std::visit(Recipient{*this}, message);
}

}  // namespace hbmwire::detail
