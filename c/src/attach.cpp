// SPDX-License-Identifier: MIT
#include "hbmwire/attach.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

hbmwire_status hbmwire_attach_listener_create(hbmwire_attach_listener** listener,
                                              hbmwire_error* error) {
  return c::create(listener, error, {}, [] { return AttachListener::create(); });
}

void hbmwire_attach_listener_free(hbmwire_attach_listener* listener) { delete listener; }

hbmwire_status hbmwire_attach_listener_publish(const hbmwire_attach_listener* listener,
                                               const hbmwire_region* region,
                                               hbmwire_attach_publication** publication,
                                               hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{listener, "listener"}, {region, "region"}};
  return c::create(publication, error, needed,
                   [&] { return listener->value->publish(*region->at); });
}

int32_t hbmwire_attach_listener_fd(const hbmwire_attach_listener* listener) {
  return listener == nullptr ? -1 : listener->value->fd();
}

hbmwire_status hbmwire_attach_listener_progress(const hbmwire_attach_listener* listener,
                                                hbmwire_error* error) {
  return c::run(error, {{listener, "listener"}}, [&] { return listener->value->progress(); });
}

hbmwire_status hbmwire_attach_publication_address(const hbmwire_attach_publication* publication,
                                                  hbmwire_attach_address* address,
                                                  hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{publication, "publication"},
                                                  {address, "address"}};
  return c::run(error, needed, [&]() -> Result<void> {
    c::fill_address(*address, publication->value->address());
    return {};
  });
}

void hbmwire_attach_publication_free(hbmwire_attach_publication* publication) {
  delete publication;
}

void hbmwire_attached_init(hbmwire_attached* attached, size_t struct_size) {
  c::initialise(attached, struct_size, {});
}

hbmwire_status hbmwire_attach(const hbmwire_context* context, const hbmwire_attach_address* from,
                              int64_t timeout_ns, int32_t cancel_fd, hbmwire_attached* attached,
                              hbmwire_allocation** allocation, hbmwire_error* error) {
  return c::create(allocation, error, {{context, "context"}}, [&]() -> Result<Allocation> {
    if (attached != nullptr) HBMWIRE_TRY(c::need_answer(attached, "attached"));
    HBMWIRE_TRY_ASSIGN(const AttachAddress address, c::address_of(from));
    HBMWIRE_TRY_ASSIGN(const AttachedMemory memory,
                       attach(*context->value, address, c::wait_of(timeout_ns, cancel_fd)));
    if (attached != nullptr) {
      c::fill(attached, {.struct_size = 0,
                         .exporter_address = memory.exporter_address,
                         .exporter_generation = memory.exporter_generation,
                         .type = c::number_of(memory.type),
                         .writable = memory.writable ? 1 : 0});
    }
    return memory.memory;
  });
}
