// SPDX-License-Identifier: MIT
#include "hbmwire/pending.hpp"

#include "handles.hpp"

using namespace hbmwire;

hbmwire_status hbmwire_endpoint_start_connect(hbmwire_worker* worker, const char* peer,
                                              int64_t timeout_ns,
                                              const hbmwire_endpoint_options* options,
                                              hbmwire_pending_endpoint** pending,
                                              hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{worker, "worker"}, {peer, "peer"}};
  return c::create(pending, error, needed, [&]() -> Result<PendingEndpoint> {
    HBMWIRE_TRY_ASSIGN(const EndpointOptions wanted, c::endpoint_options_of(options));
    return Endpoint::start_connect(*worker->value, peer, c::deadline_of(timeout_ns), wanted);
  });
}

hbmwire_status hbmwire_endpoint_start_reconnect(const hbmwire_endpoint* endpoint,
                                                int64_t timeout_ns,
                                                hbmwire_pending_endpoint** pending,
                                                hbmwire_error* error) {
  return c::create(pending, error, {{endpoint, "endpoint"}},
                   [&] { return endpoint->value->start_reconnect(c::deadline_of(timeout_ns)); });
}

hbmwire_transfer* hbmwire_pending_endpoint_transfer(hbmwire_pending_endpoint* pending) {
  return pending == nullptr ? nullptr : &pending->transfer;
}

hbmwire_status hbmwire_pending_endpoint_take(hbmwire_pending_endpoint* pending,
                                             hbmwire_endpoint** endpoint, hbmwire_error* error) {
  return c::create(endpoint, error, {{pending, "pending"}}, [&] { return pending->value->take(); });
}

void hbmwire_pending_endpoint_free(hbmwire_pending_endpoint* pending) { delete pending; }

hbmwire_status hbmwire_endpoint_start_remote(hbmwire_endpoint* endpoint, const char* name,
                                             int64_t timeout_ns, hbmwire_pending_region** pending,
                                             hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{endpoint, "endpoint"}, {name, "name"}};
  return c::create(pending, error, needed,
                   [&] { return endpoint->value->start_remote(name, c::deadline_of(timeout_ns)); });
}

hbmwire_transfer* hbmwire_pending_region_transfer(hbmwire_pending_region* pending) {
  return pending == nullptr ? nullptr : &pending->transfer;
}

hbmwire_status hbmwire_pending_region_take(hbmwire_pending_region* pending,
                                           hbmwire_remote_region** remote, hbmwire_error* error) {
  return c::create(remote, error, {{pending, "pending"}}, [&] { return pending->value->take(); });
}

void hbmwire_pending_region_free(hbmwire_pending_region* pending) { delete pending; }
