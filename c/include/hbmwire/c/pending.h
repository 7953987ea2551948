// SPDX-License-Identifier: MIT
// Connections and questions that go on without waiting.
#ifndef HBMWIRE_C_PENDING_H
#define HBMWIRE_C_PENDING_H

#include "hbmwire/c/endpoint.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/transfer.h"
#include "hbmwire/c/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/// An endpoint that is being connected. It proceeds with its worker's progress; freeing it gives
/// the connection up. Threads: its worker's.
typedef struct hbmwire_pending_endpoint hbmwire_pending_endpoint;

/// Memory that the peer is asked for by its name. Threads: its worker's.
typedef struct hbmwire_pending_region hbmwire_pending_region;

/// hbmwire_endpoint_connect() without waiting, not even for a name look-up. It is over by
/// `timeout_ns` from now on at the latest. Errors: HBMWIRE_STAGE_CONFIGURE; HBMWIRE_EXHAUSTED. All
/// other errors are those of the transfer (hbmwire_pending_endpoint_transfer()).
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_start_connect(hbmwire_worker* worker,
                                                            const char* peer, int64_t timeout_ns,
                                                            const hbmwire_endpoint_options* options,
                                                            hbmwire_pending_endpoint** pending,
                                                            hbmwire_error* error);

/// hbmwire_endpoint_reconnect() without waiting. It gives another endpoint; this one stays as it
/// is. Errors: HBMWIRE_NOT_SUPPORTED and HBMWIRE_BUSY as hbmwire_endpoint_reconnect(); those of
/// hbmwire_endpoint_start_connect(). All other errors are those of the transfer
/// (hbmwire_pending_endpoint_transfer()).
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_start_reconnect(const hbmwire_endpoint* endpoint,
                                                              int64_t timeout_ns,
                                                              hbmwire_pending_endpoint** pending,
                                                              hbmwire_error* error);

/// Over when there is an endpoint, or there can be none. A transfer as any other, which belongs to
/// `pending`. Cancelling it gives the connection up.
HBMWIRE_C_API hbmwire_transfer* hbmwire_pending_endpoint_transfer(
    hbmwire_pending_endpoint* pending);

/// The endpoint, once. Errors: as the transfer's; HBMWIRE_BUSY, it is not over;
/// HBMWIRE_INVALID_ARGUMENT, it was taken already.
HBMWIRE_C_API hbmwire_status hbmwire_pending_endpoint_take(hbmwire_pending_endpoint* pending,
                                                           hbmwire_endpoint** endpoint,
                                                           hbmwire_error* error);

/// Ends it, and its transfer.
HBMWIRE_C_API void hbmwire_pending_endpoint_free(hbmwire_pending_endpoint* pending);

/// hbmwire_endpoint_remote() without waiting. Errors: as operations; HBMWIRE_INVALID_ARGUMENT, a
/// name of 0 or more than 255 bytes. All other errors are those of the transfer
/// (hbmwire_pending_region_transfer()).
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_start_remote(hbmwire_endpoint* endpoint,
                                                           const char* name, int64_t timeout_ns,
                                                           hbmwire_pending_region** pending,
                                                           hbmwire_error* error);

/// Over when the peer has answered, or cannot answer any more. It belongs to `pending`.
HBMWIRE_C_API hbmwire_transfer* hbmwire_pending_region_transfer(hbmwire_pending_region* pending);

/// The memory, any number of times. Errors: as the transfer's; HBMWIRE_BUSY, it is not over.
HBMWIRE_C_API hbmwire_status hbmwire_pending_region_take(hbmwire_pending_region* pending,
                                                         hbmwire_remote_region** remote,
                                                         hbmwire_error* error);

/// Ends it, and its transfer.
HBMWIRE_C_API void hbmwire_pending_region_free(hbmwire_pending_region* pending);

#ifdef __cplusplus
}
#endif

#endif
