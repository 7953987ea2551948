// SPDX-License-Identifier: MIT
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

Result<std::shared_ptr<EndpointState>> shake_hands(const std::shared_ptr<WorkerState>& worker,
                                                   wire::Handshake& handshake, const Wait& wait,
                                                   const EndpointOptions& options) {
  const WorkerLock lock(*worker);
  HBMWIRE_TRY_ASSIGN(auto endpoint, EndpointState::create(worker, options));
  endpoint->peer = handshake.peer();
  HBMWIRE_TRY_ASSIGN(const wire::EndpointOffer theirs, handshake.exchange(endpoint->offer(), wait));
  HBMWIRE_TRY(endpoint->connect(theirs));
  if (auto ready = handshake.ready(wait); !ready) {
    endpoint->keeps_worker.reset();
    endpoint->abandon();
    return tl::make_unexpected(ready.error());
  }
  endpoint->socket = handshake.take_socket();
  return endpoint;
}

}  // namespace hbmwire::detail
