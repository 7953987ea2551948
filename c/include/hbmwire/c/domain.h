// SPDX-License-Identifier: MIT
// The memory of one device.
#ifndef HBMWIRE_C_DOMAIN_H
#define HBMWIRE_C_DOMAIN_H

#include "hbmwire/c/buffer.h"
#include "hbmwire/c/context.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The memory of one device, opened: for programs that export or copy by themselves. Threads: any.
typedef struct hbmwire_domain hbmwire_domain;

/// The memory of one device, opened unless it is open. Opening a Gaudi card can take seconds.
/// Errors: HBMWIRE_STAGE_PROBE (no library, no device), HBMWIRE_STAGE_OPEN (busy, refused).
HBMWIRE_C_API hbmwire_status hbmwire_context_open(const hbmwire_context* context,
                                                  hbmwire_memory_type type,
                                                  const hbmwire_memory_options* options,
                                                  hbmwire_domain** domain, hbmwire_error* error);

/// Frees the handle; allocations stay.
HBMWIRE_C_API void hbmwire_domain_free(hbmwire_domain* domain);

/// The device; its strings are the domain's.
HBMWIRE_C_API hbmwire_status hbmwire_domain_device(const hbmwire_domain* domain,
                                                   hbmwire_device* device, hbmwire_error* error);

/// The engine that copies between host and device: "CPU", "SynapseAI DMA"; empty if only a NIC in
/// loopback can copy. As hbmwire_error_describe().
HBMWIRE_C_API size_t hbmwire_domain_copy_engine(const hbmwire_domain* domain, char* text,
                                                size_t capacity);

/// Allocates `size_bytes` (more than 0), aligned to 4096 bytes at least. Contents are undefined.
/// Errors: HBMWIRE_STAGE_ALLOCATE.
HBMWIRE_C_API hbmwire_status hbmwire_domain_allocate(hbmwire_domain* domain, uint64_t size_bytes,
                                                     hbmwire_allocation** allocation,
                                                     hbmwire_error* error);

/// A dma-buf and the place of an address range in it.
typedef struct hbmwire_dmabuf_range {
  size_t struct_size;     ///< set by hbmwire_dmabuf_range_init()
  uint64_t base_address;  ///< device address of the dma-buf's first byte
  uint64_t offset_bytes;  ///< where the range begins in the dma-buf
  uint64_t length_bytes;  ///< of the range
  uint64_t generation;    ///< differs for each allocation of the process
  int32_t fd;             ///< a descriptor of the program's own, which it closes
  int32_t writable;       ///< 0: its exporter allows only reading
} hbmwire_dmabuf_range;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_dmabuf_range_init(hbmwire_dmabuf_range* range, size_t struct_size);

/// The dma-buf that holds all of the allocation. Errors: HBMWIRE_NOT_SUPPORTED (host memory),
/// HBMWIRE_STAGE_EXPORT_DMABUF.
HBMWIRE_C_API hbmwire_status hbmwire_allocation_export_dmabuf(const hbmwire_allocation* allocation,
                                                              hbmwire_dmabuf_range* range,
                                                              hbmwire_error* error);

/// The use that a program announces for memory.
typedef int32_t hbmwire_advice;

enum {
  HBMWIRE_ADVICE_PREFETCH = 0,       ///< it will be used soon
  HBMWIRE_ADVICE_WILL_NOT_NEED = 1,  ///< it will not be used for a while; its contents stay
};

/// Tells the device's driver how the memory will be used. Errors: HBMWIRE_NOT_SUPPORTED, there is
/// no such call.
HBMWIRE_C_API hbmwire_status hbmwire_allocation_advise(const hbmwire_allocation* allocation,
                                                       hbmwire_advice advice, hbmwire_error* error);

/// Copies from host to device, and from device to host, from `address` on, by the device's engine.
/// Bytes that a NIC wrote must have been flushed before. Errors: HBMWIRE_STAGE_COPY;
/// HBMWIRE_NOT_SUPPORTED, no engine.
HBMWIRE_C_API hbmwire_status hbmwire_domain_copy_in(hbmwire_domain* domain, uint64_t address,
                                                    const void* from, size_t length_bytes,
                                                    int64_t timeout_ns, int32_t cancel_fd,
                                                    hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_domain_copy_out(hbmwire_domain* domain, uint64_t address,
                                                     void* to, size_t length_bytes,
                                                     int64_t timeout_ns, int32_t cancel_fd,
                                                     hbmwire_error* error);

/// The same without waiting: the host's bytes must stay until the copy is complete or freed.
HBMWIRE_C_API hbmwire_status hbmwire_domain_start_copy_in(hbmwire_domain* domain, uint64_t address,
                                                          const void* from, size_t length_bytes,
                                                          hbmwire_copy** copy,
                                                          hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_domain_start_copy_out(hbmwire_domain* domain, uint64_t address,
                                                           void* to, size_t length_bytes,
                                                           hbmwire_copy** copy,
                                                           hbmwire_error* error);

/// Makes the bytes of completed NIC writes into this device's memory visible to its own engines.
/// `done` is false if the vendor has no call for that. Errors: HBMWIRE_STAGE_COPY.
HBMWIRE_C_API hbmwire_status hbmwire_domain_flush(hbmwire_domain* domain, bool* done,
                                                  hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
