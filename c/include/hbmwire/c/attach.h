// SPDX-License-Identifier: MIT
// Memory of another process of this node.
#ifndef HBMWIRE_C_ATTACH_H
#define HBMWIRE_C_ATTACH_H

#include "hbmwire/c/context.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/memory_key.h"
#include "hbmwire/c/region.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Gives dma-bufs to processes of the same node and user (docs/attach.md). Threads: any. It starts
/// no thread: the program polls its descriptor and calls hbmwire_attach_listener_progress().
typedef struct hbmwire_attach_listener hbmwire_attach_listener;

/// Memory that other processes may attach to while this exists. It holds the memory. Threads: any.
typedef struct hbmwire_attach_publication hbmwire_attach_publication;

/// Listens on an abstract socket of a random name. Errors: HBMWIRE_STAGE_CONNECT.
HBMWIRE_C_API hbmwire_status hbmwire_attach_listener_create(hbmwire_attach_listener** listener,
                                                            hbmwire_error* error);

/// Ends the listener; its publications may be freed later.
HBMWIRE_C_API void hbmwire_attach_listener_free(hbmwire_attach_listener* listener);

/// Lets other processes attach to all of the region's memory. Errors: HBMWIRE_NOT_SUPPORTED (host
/// memory has no dma-buf), HBMWIRE_STAGE_EXPORT_DMABUF.
HBMWIRE_C_API hbmwire_status hbmwire_attach_listener_publish(
    const hbmwire_attach_listener* listener, const hbmwire_region* region,
    hbmwire_attach_publication** publication, hbmwire_error* error);

/// A descriptor that is readable (poll(2)) when there is something to do. It belongs to the
/// listener; -1 for NULL.
HBMWIRE_C_API int32_t hbmwire_attach_listener_fd(const hbmwire_attach_listener* listener);

/// Answers clients that have asked. Never blocks. Errors: HBMWIRE_STAGE_CONNECT (errors of the
/// kernel).
HBMWIRE_C_API hbmwire_status
hbmwire_attach_listener_progress(const hbmwire_attach_listener* listener, hbmwire_error* error);

/// The address that hbmwire_attach() takes in the other process.
HBMWIRE_C_API hbmwire_status
hbmwire_attach_publication_address(const hbmwire_attach_publication* publication,
                                   hbmwire_attach_address* address, hbmwire_error* error);

/// Withdraws the memory. A process that has it already keeps it.
HBMWIRE_C_API void hbmwire_attach_publication_free(hbmwire_attach_publication* publication);

/// Facts about memory of another process of this node.
typedef struct hbmwire_attached {
  size_t struct_size;            ///< set by hbmwire_attached_init()
  uint64_t exporter_address;     ///< the address of its first byte there
  uint64_t exporter_generation;  ///< of the allocation there
  hbmwire_memory_type type;      ///< its type there
  int32_t writable;              ///< 0: it can be registered for reading alone
} hbmwire_attached;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_attached_init(hbmwire_attached* attached, size_t struct_size);

/// Asks the process that has published the memory for its dma-buf, and imports that. `attached` may
/// be NULL. Errors: HBMWIRE_STAGE_CONNECT: HBMWIRE_INVALID_ARGUMENT (a malformed address),
/// HBMWIRE_PEER_FAILED, HBMWIRE_PERMISSION_DENIED, HBMWIRE_NOT_FOUND (withdrawn),
/// HBMWIRE_PROTOCOL, HBMWIRE_TIMED_OUT, HBMWIRE_CANCELLED; as hbmwire_context_import_dmabuf().
HBMWIRE_C_API hbmwire_status hbmwire_attach(const hbmwire_context* context,
                                            const hbmwire_attach_address* from, int64_t timeout_ns,
                                            int32_t cancel_fd, hbmwire_attached* attached,
                                            hbmwire_allocation** allocation, hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
