// SPDX-License-Identifier: MIT
#include "hbmwire/endpoint.hpp"

#include "handles.hpp"

using namespace hbmwire;

hbmwire_status hbmwire_invitation_create(hbmwire_worker* worker,
                                         const hbmwire_endpoint_options* options,
                                         hbmwire_invitation** invitation, hbmwire_error* error) {
  return c::create(invitation, error, {{worker, "worker"}}, [&]() -> Result<EndpointInvitation> {
    HBMWIRE_TRY_ASSIGN(const EndpointOptions wanted, c::endpoint_options_of(options));
    return EndpointInvitation::create(*worker->value, wanted);
  });
}

const void* hbmwire_invitation_bytes(const hbmwire_invitation* invitation, size_t* size) {
  if (size != nullptr) *size = invitation == nullptr ? 0 : invitation->value->bytes().size();
  return invitation == nullptr ? nullptr : invitation->value->bytes().data();
}

hbmwire_status hbmwire_invitation_start(hbmwire_invitation* invitation, const void* theirs,
                                        size_t size, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{invitation, "invitation"}, {theirs, "theirs"}};
  return c::run(error, needed, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(theirs, size));
    return invitation->value->start(bytes);
  });
}

hbmwire_status hbmwire_invitation_poll(hbmwire_invitation* invitation, hbmwire_endpoint** endpoint,
                                       hbmwire_error* error) {
  return c::create_any(endpoint, error, {{invitation, "invitation"}},
                       [&] { return invitation->value->poll(); });
}

hbmwire_status hbmwire_invitation_connect(hbmwire_invitation* invitation, const void* theirs,
                                          size_t size, int64_t timeout_ns, int32_t cancel_fd,
                                          hbmwire_endpoint** endpoint, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{invitation, "invitation"}, {theirs, "theirs"}};
  return c::create(endpoint, error, needed, [&]() -> Result<Endpoint> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(theirs, size));
    return invitation->value->connect(bytes, c::wait_of(timeout_ns, cancel_fd));
  });
}

void hbmwire_invitation_free(hbmwire_invitation* invitation) { delete invitation; }
