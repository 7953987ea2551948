// SPDX-License-Identifier: MIT
// Where peers connect.
#ifndef HBMWIRE_C_LISTENER_H
#define HBMWIRE_C_LISTENER_H

#include "hbmwire/c/endpoint.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/memory_key.h"
#include "hbmwire/c/region.h"
#include "hbmwire/c/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Where peers connect. Handshakes proceed while the worker makes progress. Threads: its worker's.
typedef struct hbmwire_listener hbmwire_listener;

/// A list of texts. The list owns them.
typedef struct hbmwire_texts hbmwire_texts;

/// Where a listener listens, and how it treats peers that connect.
typedef struct hbmwire_listener_options {
  size_t struct_size;                        ///< set by hbmwire_listener_options_init()
  const char* address;                       ///< of this machine; NULL: all
  const hbmwire_endpoint_options* endpoint;  ///< of each endpoint that it accepts; NULL: the
                                             ///< defaults
  int64_t handshake_timeout_ns;              ///< how long a handshake may take: 5 s
  uint32_t max_handshakes;                   ///< how many peers may be in the handshake at a time:
                                             ///< 64
  int32_t port;                              ///< 0: a free port
  int32_t rdma_cm;                           ///< 1: by the RDMA connection manager
  int32_t reserved;                          ///< 0
} hbmwire_listener_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_listener_options_init(hbmwire_listener_options* options,
                                                 size_t struct_size);

/// Listens. Errors: HBMWIRE_STAGE_CONNECT (port in use); HBMWIRE_STAGE_CONFIGURE.
HBMWIRE_C_API hbmwire_status hbmwire_listener_create(hbmwire_worker* worker,
                                                     const hbmwire_listener_options* options,
                                                     hbmwire_listener** listener,
                                                     hbmwire_error* error);

/// Stops listening; its endpoints go on.
HBMWIRE_C_API void hbmwire_listener_free(hbmwire_listener* listener);

/// The port that it listens on; 0 for NULL.
HBMWIRE_C_API uint16_t hbmwire_listener_port(const hbmwire_listener* listener);

/// Where others reach this listener, for hbmwire_endpoint_connect(), the most useful first. Errors:
/// HBMWIRE_STAGE_CONNECT (getifaddrs(3)).
HBMWIRE_C_API hbmwire_status hbmwire_listener_addresses(const hbmwire_listener* listener,
                                                        hbmwire_texts** addresses,
                                                        hbmwire_error* error);

/// The number of texts; the text at `index`, NULL after the last; and the end of the list.
HBMWIRE_C_API size_t hbmwire_texts_count(const hbmwire_texts* texts);
HBMWIRE_C_API const char* hbmwire_texts_get(const hbmwire_texts* texts, size_t index);
HBMWIRE_C_API void hbmwire_texts_free(hbmwire_texts* texts);

/// The next peer, oldest first. Drives the worker. Errors: HBMWIRE_TIMED_OUT, HBMWIRE_CANCELLED.
HBMWIRE_C_API hbmwire_status hbmwire_listener_accept(hbmwire_listener* listener, int64_t timeout_ns,
                                                     int32_t cancel_fd, hbmwire_endpoint** endpoint,
                                                     hbmwire_error* error);

/// The next peer if there is one, otherwise NULL. Drives the worker once, never blocks.
HBMWIRE_C_API hbmwire_status hbmwire_listener_try_accept(hbmwire_listener* listener,
                                                         hbmwire_endpoint** endpoint,
                                                         hbmwire_error* error);

/// Lets peers ask for this memory by `name` (at most 255 bytes). Ends with
/// hbmwire_listener_withdraw(), or when the listener and all its endpoints have gone. Without
/// options: as the region allows. Errors: HBMWIRE_BUSY (the name is taken), and as
/// hbmwire_memory_key_pack().
HBMWIRE_C_API hbmwire_status hbmwire_listener_advertise(hbmwire_listener* listener,
                                                        const char* name,
                                                        const hbmwire_region* region,
                                                        const hbmwire_memory_key_options* options,
                                                        hbmwire_error* error);

/// Takes the name back, and the key if it can be revoked.
HBMWIRE_C_API hbmwire_status hbmwire_listener_withdraw(hbmwire_listener* listener, const char* name,
                                                       hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
