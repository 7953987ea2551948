// SPDX-License-Identifier: MIT
#include <string>

#include "hbmwire/endpoint.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

void hbmwire_listener_options_init(hbmwire_listener_options* options, size_t struct_size) {
  const ListenerOptions library;
  hbmwire_listener_options made{};
  made.handshake_timeout_ns = c::number_of_ns(library.handshake_timeout);
  made.max_handshakes = library.max_handshakes;
  c::initialise(options, struct_size, made);
}

hbmwire_status hbmwire_listener_create(hbmwire_worker* worker,
                                       const hbmwire_listener_options* options,
                                       hbmwire_listener** listener, hbmwire_error* error) {
  return c::create(listener, error, {{worker, "worker"}}, [&]() -> Result<Listener> {
    hbmwire_listener_options defaults;
    hbmwire_listener_options_init(&defaults, sizeof defaults);
    HBMWIRE_TRY_ASSIGN(const hbmwire_listener_options given, c::options_of(options, defaults));
    HBMWIRE_TRY_ASSIGN(const auto port, c::optional_of<std::uint16_t>(given.port, "port"));
    ListenerOptions wanted;
    wanted.address = c::text_of(given.address);
    wanted.port = port.value_or(0);
    wanted.rdma_cm = given.rdma_cm != 0;
    HBMWIRE_TRY_ASSIGN(wanted.endpoint, c::endpoint_options_of(given.endpoint));
    wanted.handshake_timeout = c::duration_of(given.handshake_timeout_ns);
    wanted.max_handshakes = given.max_handshakes;
    return Listener::create(*worker->value, wanted);
  });
}

void hbmwire_listener_free(hbmwire_listener* listener) { delete listener; }

uint16_t hbmwire_listener_port(const hbmwire_listener* listener) {
  return listener == nullptr ? uint16_t{0} : listener->value->port();
}

hbmwire_status hbmwire_listener_addresses(const hbmwire_listener* listener,
                                          hbmwire_texts** addresses, hbmwire_error* error) {
  return c::create(addresses, error, {{listener, "listener"}},
                   [&] { return listener->value->addresses(); });
}

size_t hbmwire_texts_count(const hbmwire_texts* texts) {
  return texts == nullptr ? 0 : texts->all.size();
}

const char* hbmwire_texts_get(const hbmwire_texts* texts, size_t index) {
  return index < hbmwire_texts_count(texts) ? texts->all[index].c_str() : nullptr;
}

void hbmwire_texts_free(hbmwire_texts* texts) { delete texts; }

hbmwire_status hbmwire_listener_accept(hbmwire_listener* listener, int64_t timeout_ns,
                                       int32_t cancel_fd, hbmwire_endpoint** endpoint,
                                       hbmwire_error* error) {
  return c::create(endpoint, error, {{listener, "listener"}},
                   [&] { return listener->value->accept(c::wait_of(timeout_ns, cancel_fd)); });
}

hbmwire_status hbmwire_listener_try_accept(hbmwire_listener* listener, hbmwire_endpoint** endpoint,
                                           hbmwire_error* error) {
  return c::create_any(endpoint, error, {{listener, "listener"}}, [&] {
    return Result<std::optional<Endpoint>>(listener->value->try_accept());
  });
}

hbmwire_status hbmwire_listener_advertise(hbmwire_listener* listener, const char* name,
                                          const hbmwire_region* region,
                                          const hbmwire_memory_key_options* options,
                                          hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{
      {listener, "listener"}, {name, "name"}, {region, "region"}};
  return c::run(error, needed, [&]() -> Result<void> {
    if (options == nullptr) return listener->value->advertise(name, *region->at);
    HBMWIRE_TRY_ASSIGN(const MemoryKeyOptions wanted, c::key_options_of(options));
    return listener->value->advertise(name, *region->at, wanted);
  });
}

hbmwire_status hbmwire_listener_withdraw(hbmwire_listener* listener, const char* name,
                                         hbmwire_error* error) {
  return c::run(error, {{listener, "listener"}, {name, "name"}},
                [&] { return listener->value->withdraw(name); });
}
