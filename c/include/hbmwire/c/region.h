// SPDX-License-Identifier: MIT
// Registered memory.
#ifndef HBMWIRE_C_REGION_H
#define HBMWIRE_C_REGION_H

#include "hbmwire/c/context.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/nic.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Memory that NICs may move: an allocation and its registrations. It must live until each transfer
/// that uses it is over. Threads: any.
typedef struct hbmwire_region hbmwire_region;

/// Every path by which a region could have been registered. It owns the strings that its functions
/// give.
typedef struct hbmwire_paths_tried hbmwire_paths_tried;

/// A part of a region. This structure has no struct_size: its members will not change.
typedef struct hbmwire_slice {
  const hbmwire_region* region;  ///< the region that it is a part of
  uint64_t offset_bytes;         ///< from the region's first byte on
  uint64_t length_bytes;         ///< may be 0
} hbmwire_slice;

/// Facts about a region.
typedef struct hbmwire_region_info {
  size_t struct_size;     ///< set by hbmwire_region_info_init()
  uint64_t address;       ///< the device's, of its first byte; a pointer only for host memory
  uint64_t size_bytes;    ///< the length of the registered memory
  size_t nic_count;       ///< how many NICs it is registered with
  hbmwire_path path;      ///< how the NICs reach it
  hbmwire_access access;  ///< the access that it was registered for
  int32_t dmabuf_fd;      ///< of its dma-buf; -1 for host memory. Owned by the region
  int32_t reserved;       ///< 0
} hbmwire_region_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_region_info_init(hbmwire_region_info* info, size_t struct_size);

/// New memory that is registered with the context's NICs. The region holds the memory. Errors: as
/// hbmwire_context_allocate() and hbmwire_context_register_allocation().
HBMWIRE_C_API hbmwire_status hbmwire_context_allocate_region(
    const hbmwire_context* context, hbmwire_memory_type type, uint64_t size_bytes,
    hbmwire_access access, const hbmwire_memory_options* options, hbmwire_region** region,
    hbmwire_error* error);

/// Registers the application's own memory, of any type, with the context's NICs. It must stay
/// mapped as long as the region lives. Errors: as hbmwire_context_borrow() and
/// hbmwire_context_register_allocation().
HBMWIRE_C_API hbmwire_status hbmwire_context_register_memory(
    const hbmwire_context* context, uint64_t address, uint64_t length_bytes, hbmwire_access access,
    hbmwire_region** region, hbmwire_error* error);

/// Registers all of an allocation with the context's NICs, each on the same path: device memory
/// through its dma-buf. Errors: HBMWIRE_STAGE_EXPORT_DMABUF, HBMWIRE_STAGE_REGISTER_MEMORY;
/// HBMWIRE_PERMISSION_DENIED, the policy excludes the path that the memory would take.
HBMWIRE_C_API hbmwire_status hbmwire_context_register_allocation(
    const hbmwire_context* context, const hbmwire_allocation* allocation, hbmwire_access access,
    hbmwire_region** region, hbmwire_error* error);

/// Imports a dma-buf and registers it. Errors: as hbmwire_context_import_dmabuf() and
/// hbmwire_context_register_allocation().
HBMWIRE_C_API hbmwire_status hbmwire_context_register_dmabuf(const hbmwire_context* context,
                                                             const hbmwire_dmabuf* dmabuf,
                                                             hbmwire_access access,
                                                             hbmwire_region** region,
                                                             hbmwire_error* error);

/// Frees the handle. The region is deregistered when everything made of it has gone.
HBMWIRE_C_API void hbmwire_region_free(hbmwire_region* region);

/// Gives the facts about a region.
HBMWIRE_C_API hbmwire_status hbmwire_region_get_info(const hbmwire_region* region,
                                                     hbmwire_region_info* info,
                                                     hbmwire_error* error);

/// The NIC at `index` that it is registered with; its strings live as long as the region. Errors:
/// HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_region_nic(const hbmwire_region* region, size_t index,
                                                hbmwire_nic_info* nic, hbmwire_error* error);

/// The memory itself, if the CPU reaches it by its address (HBMWIRE_MEMORY_HOST); otherwise NULL.
/// The application must keep its own accesses and those of NICs apart.
HBMWIRE_C_API void* hbmwire_region_host_bytes(const hbmwire_region* region);

/// Copies `length_bytes` from the host to memory of any type, and from there to the host, from
/// `offset_bytes` on. A program that copies often should keep a hbmwire_buffer. Errors:
/// HBMWIRE_STAGE_COPY; HBMWIRE_INVALID_ARGUMENT, the range leaves the region.
HBMWIRE_C_API hbmwire_status hbmwire_region_write(const hbmwire_region* region,
                                                  uint64_t offset_bytes, const void* from,
                                                  size_t length_bytes, int64_t timeout_ns,
                                                  int32_t cancel_fd, hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_region_read(const hbmwire_region* region,
                                                 uint64_t offset_bytes, void* to,
                                                 size_t length_bytes, int64_t timeout_ns,
                                                 int32_t cancel_fd, hbmwire_error* error);

/// A path by which a region could have been registered, or a transfer could have gone.
typedef struct hbmwire_path_tried {
  size_t struct_size;  ///< set by hbmwire_path_tried_init()
  const char* nic;     ///< the NIC where it failed; may be empty
  hbmwire_path path;   ///< the path
  int32_t taken;       ///< 1: this path was taken
} hbmwire_path_tried;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_path_tried_init(hbmwire_path_tried* tried, size_t struct_size);

/// Every path that exists, the best first: which one was taken, and why the others were not.
HBMWIRE_C_API hbmwire_status hbmwire_region_explain(const hbmwire_region* region,
                                                    hbmwire_paths_tried** paths,
                                                    hbmwire_error* error);

/// How many there are.
HBMWIRE_C_API size_t hbmwire_paths_tried_count(const hbmwire_paths_tried* paths);

/// The path at `index`. `refusal`, which may be NULL, tells why it was not taken, or is HBMWIRE_OK.
/// Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_paths_tried_get(const hbmwire_paths_tried* paths, size_t index,
                                                     hbmwire_path_tried* tried,
                                                     hbmwire_error* refusal, hbmwire_error* error);

/// Ends the list.
HBMWIRE_C_API void hbmwire_paths_tried_free(hbmwire_paths_tried* paths);

#ifdef __cplusplus
}
#endif

#endif
