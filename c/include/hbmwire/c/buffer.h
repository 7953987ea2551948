// SPDX-License-Identifier: MIT
// Many copies between registered memory and the host.
#ifndef HBMWIRE_C_BUFFER_H
#define HBMWIRE_C_BUFFER_H

#include "hbmwire/c/error.h"
#include "hbmwire/c/region.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Registered memory that the host writes and reads often, wherever it lies. Threads: one at a
/// time.
typedef struct hbmwire_buffer hbmwire_buffer;

/// A copy between host and device that goes on by itself, or is complete. Threads: one at a time.
typedef struct hbmwire_copy hbmwire_copy;

/// Makes a buffer of registered memory. Errors: HBMWIRE_INVALID_ARGUMENT, device memory without
/// HBMWIRE_ACCESS_LOCAL_WRITE, which a NIC needs if the device has no copy engine.
HBMWIRE_C_API hbmwire_status hbmwire_buffer_create(const hbmwire_region* region,
                                                   hbmwire_buffer** buffer, hbmwire_error* error);

/// Ends it.
HBMWIRE_C_API void hbmwire_buffer_free(hbmwire_buffer* buffer);

/// The length of the buffer; 0 for NULL.
HBMWIRE_C_API uint64_t hbmwire_buffer_size_bytes(const hbmwire_buffer* buffer);

/// How bytes move: "CPU", "SynapseAI DMA", ..., or "NIC loopback". As hbmwire_error_describe().
HBMWIRE_C_API size_t hbmwire_buffer_copy_path(const hbmwire_buffer* buffer, char* text,
                                              size_t capacity);

/// Copies from the host to `offset_bytes` of the buffer, and from there to the host. Bytes that a
/// NIC has completed into the buffer before are flushed first. Errors: HBMWIRE_STAGE_COPY;
/// HBMWIRE_INVALID_ARGUMENT, the range leaves the buffer.
HBMWIRE_C_API hbmwire_status hbmwire_buffer_write(hbmwire_buffer* buffer, uint64_t offset_bytes,
                                                  const void* from, size_t length_bytes,
                                                  int64_t timeout_ns, int32_t cancel_fd,
                                                  hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_buffer_read(hbmwire_buffer* buffer, uint64_t offset_bytes,
                                                 void* to, size_t length_bytes, int64_t timeout_ns,
                                                 int32_t cancel_fd, hbmwire_error* error);

/// The same without waiting: the host's bytes must stay until the copy is complete or freed. Copies
/// of one buffer are done in the order in which they were started.
HBMWIRE_C_API hbmwire_status hbmwire_buffer_start_write(hbmwire_buffer* buffer,
                                                        uint64_t offset_bytes, const void* from,
                                                        size_t length_bytes, hbmwire_copy** copy,
                                                        hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_buffer_start_read(hbmwire_buffer* buffer,
                                                       uint64_t offset_bytes, void* to,
                                                       size_t length_bytes, hbmwire_copy** copy,
                                                       hbmwire_error* error);

/// Whether it is complete; never blocks. Errors: why it failed, once.
HBMWIRE_C_API hbmwire_status hbmwire_copy_poll(hbmwire_copy* copy, bool* over,
                                               hbmwire_error* error);

/// Waits until the copy is complete. Errors: HBMWIRE_STAGE_COPY; HBMWIRE_TIMED_OUT or
/// HBMWIRE_CANCELLED, after which the copy still goes on.
HBMWIRE_C_API hbmwire_status hbmwire_copy_wait(hbmwire_copy* copy, int64_t timeout_ns,
                                               int32_t cancel_fd, hbmwire_error* error);

/// Waits until the device no longer touches the host's bytes, and ends the copy.
HBMWIRE_C_API void hbmwire_copy_free(hbmwire_copy* copy);

#ifdef __cplusplus
}
#endif

#endif
