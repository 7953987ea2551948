// SPDX-License-Identifier: MIT
#include <string>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/nic.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

hbmwire_status hbmwire_endpoint_connect(hbmwire_worker* worker, const char* peer,
                                        int64_t timeout_ns, int32_t cancel_fd,
                                        const hbmwire_endpoint_options* options,
                                        hbmwire_endpoint** endpoint, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{worker, "worker"}, {peer, "peer"}};
  return c::create(endpoint, error, needed, [&]() -> Result<Endpoint> {
    HBMWIRE_TRY_ASSIGN(const EndpointOptions wanted, c::endpoint_options_of(options));
    return Endpoint::connect(*worker->value, peer, c::wait_of(timeout_ns, cancel_fd), wanted);
  });
}

void hbmwire_endpoint_free(hbmwire_endpoint* endpoint) {
  if (endpoint != nullptr && endpoint->own) delete endpoint;
}

void hbmwire_endpoint_info_init(hbmwire_endpoint_info* info, size_t struct_size) {
  c::initialise(info, struct_size, {});
}

hbmwire_status hbmwire_endpoint_get_info(const hbmwire_endpoint* endpoint,
                                         hbmwire_endpoint_info* info, hbmwire_error* error) {
  return c::run(error, {{endpoint, "endpoint"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(info, "info"));
    const Endpoint& told = *endpoint->value;
    c::fill(info, {.struct_size = 0,
                   .id = told.id(),
                   .peer = told.peer().c_str(),
                   .hello = told.peer_hello().data(),
                   .hello_bytes = told.peer_hello().size(),
                   .phase = c::number_of(told.phase()),
                   .placement = c::number_of(told.placement())});
    return {};
  });
}

hbmwire_phase hbmwire_endpoint_phase(const hbmwire_endpoint* endpoint) {
  return endpoint == nullptr ? -1 : c::number_of(endpoint->value->phase());
}

hbmwire_status hbmwire_endpoint_nic(const hbmwire_endpoint* endpoint, hbmwire_nic_info* nic,
                                    hbmwire_error* error) {
  return c::run(error, {{endpoint, "endpoint"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(nic, "nic"));
    c::fill(nic, c::nic_of(endpoint->value->nic().info()));
    return {};
  });
}

hbmwire_status hbmwire_endpoint_failure(const hbmwire_endpoint* endpoint, hbmwire_error* why) {
  return c::run(why, {{endpoint, "endpoint"}}, [&]() -> Result<void> {
    const std::optional<Error> failed = endpoint->value->error();
    if (failed) return tl::make_unexpected(*failed);
    return {};
  });
}

hbmwire_status hbmwire_endpoint_fence(hbmwire_endpoint* endpoint, hbmwire_error* error) {
  return c::run(error, {{endpoint, "endpoint"}}, [&] { return endpoint->value->fence(); });
}

hbmwire_status hbmwire_endpoint_close(hbmwire_endpoint* endpoint, int64_t timeout_ns,
                                      int32_t cancel_fd, hbmwire_error* error) {
  return c::run(error, {{endpoint, "endpoint"}},
                [&] { return endpoint->value->close(c::wait_of(timeout_ns, cancel_fd)); });
}

hbmwire_status hbmwire_endpoint_start_close(hbmwire_endpoint* endpoint, int64_t timeout_ns,
                                            hbmwire_transfer** transfer, hbmwire_error* error) {
  return c::create(transfer, error, {{endpoint, "endpoint"}},
                   [&] { return endpoint->value->start_close(c::deadline_of(timeout_ns)); });
}

hbmwire_status hbmwire_endpoint_wait_closed(hbmwire_endpoint* endpoint, int64_t timeout_ns,
                                            int32_t cancel_fd, hbmwire_error* error) {
  return c::run(error, {{endpoint, "endpoint"}},
                [&] { return endpoint->value->wait_closed(c::wait_of(timeout_ns, cancel_fd)); });
}

hbmwire_status hbmwire_endpoint_reconnect(hbmwire_endpoint* endpoint, int64_t timeout_ns,
                                          int32_t cancel_fd, hbmwire_error* error) {
  return c::run(error, {{endpoint, "endpoint"}},
                [&] { return endpoint->value->reconnect(c::wait_of(timeout_ns, cancel_fd)); });
}

hbmwire_status hbmwire_endpoint_remote(hbmwire_endpoint* endpoint, const char* name,
                                       int64_t timeout_ns, int32_t cancel_fd,
                                       hbmwire_remote_region** remote, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{endpoint, "endpoint"}, {name, "name"}};
  return c::create(remote, error, needed, [&] {
    return endpoint->value->remote(std::string_view(name), c::wait_of(timeout_ns, cancel_fd));
  });
}

hbmwire_status hbmwire_endpoint_remote_by_key(const hbmwire_endpoint* endpoint,
                                              const hbmwire_remote_key* key,
                                              hbmwire_remote_region** remote,
                                              hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{endpoint, "endpoint"}, {key, "key"}};
  return c::create(remote, error, needed, [&] { return endpoint->value->remote(*key->value); });
}

hbmwire_status hbmwire_endpoint_remote_by_bytes(const hbmwire_endpoint* endpoint, const void* bytes,
                                                size_t size, hbmwire_remote_region** remote,
                                                hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{endpoint, "endpoint"}, {bytes, "bytes"}};
  return c::create(remote, error, needed, [&]() -> Result<RemoteRegion> {
    HBMWIRE_TRY_ASSIGN(const auto key, c::bytes_of(bytes, size));
    return endpoint->value->remote(key);
  });
}

void hbmwire_remote_region_info_init(hbmwire_remote_region_info* info, size_t struct_size) {
  c::initialise(info, struct_size, {});
}

hbmwire_status hbmwire_remote_region_get_info(const hbmwire_remote_region* remote,
                                              hbmwire_remote_region_info* info,
                                              hbmwire_error* error) {
  return c::run(error, {{remote, "remote"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(info, "info"));
    const RemoteRegion& told = *remote->value;
    c::fill(info, {.struct_size = 0,
                   .length_bytes = told.length_bytes(),
                   .access = static_cast<hbmwire_access>(told.access()),
                   .type = c::number_of(told.type()),
                   .path = c::number_of(told.path()),
                   .reserved = 0});
    return {};
  });
}

void hbmwire_remote_region_free(hbmwire_remote_region* remote) { delete remote; }
