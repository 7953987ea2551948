// SPDX-License-Identifier: MIT
// Connections without a listener.
#ifndef HBMWIRE_C_INVITATION_H
#define HBMWIRE_C_INVITATION_H

#include "hbmwire/c/endpoint.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A connection without a listener, made of bytes that the application carries. Each end makes an
/// invitation, carries its bytes to the other end, and starts with the bytes of the other end.
/// Threads: its worker's.
typedef struct hbmwire_invitation hbmwire_invitation;

/// Makes the queue pairs. Errors: HBMWIRE_STAGE_OPEN; HBMWIRE_STAGE_CONFIGURE.
HBMWIRE_C_API hbmwire_status hbmwire_invitation_create(hbmwire_worker* worker,
                                                       const hbmwire_endpoint_options* options,
                                                       hbmwire_invitation** invitation,
                                                       hbmwire_error* error);

/// The bytes for the peer: at most 512 bytes more than hbmwire_endpoint_options::hello. They serve
/// for one connection. The invitation owns them; they are valid as long as it lives. NULL and a
/// size of 0 for NULL.
HBMWIRE_C_API const void* hbmwire_invitation_bytes(const hbmwire_invitation* invitation,
                                                   size_t* size);

/// Begins with the peer's bytes. Never blocks. Errors: HBMWIRE_INVALID_ARGUMENT (it was started
/// before, or these are its own bytes), HBMWIRE_PROTOCOL, HBMWIRE_PERMISSION_DENIED (the keys
/// differ).
HBMWIRE_C_API hbmwire_status hbmwire_invitation_start(hbmwire_invitation* invitation,
                                                      const void* theirs, size_t size,
                                                      hbmwire_error* error);

/// Drives the worker once. Gives the endpoint when both ends have found each other, before that
/// NULL. Errors: why there can be no connection any more; HBMWIRE_INVALID_ARGUMENT (not started, or
/// taken already).
HBMWIRE_C_API hbmwire_status hbmwire_invitation_poll(hbmwire_invitation* invitation,
                                                     hbmwire_endpoint** endpoint,
                                                     hbmwire_error* error);

/// hbmwire_invitation_start(), then hbmwire_invitation_poll() until there is an endpoint. Errors:
/// as those; HBMWIRE_TIMED_OUT (it may still be polled), HBMWIRE_CANCELLED.
HBMWIRE_C_API hbmwire_status hbmwire_invitation_connect(hbmwire_invitation* invitation,
                                                        const void* theirs, size_t size,
                                                        int64_t timeout_ns, int32_t cancel_fd,
                                                        hbmwire_endpoint** endpoint,
                                                        hbmwire_error* error);

/// Withdraws the invitation: the peer can no longer connect by it.
HBMWIRE_C_API void hbmwire_invitation_free(hbmwire_invitation* invitation);

#ifdef __cplusplus
}
#endif

#endif
