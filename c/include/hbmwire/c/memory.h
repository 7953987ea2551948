// SPDX-License-Identifier: MIT
// Allocations of memory.
#ifndef HBMWIRE_C_MEMORY_H
#define HBMWIRE_C_MEMORY_H

#include "hbmwire/c/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Memory of a device or of the host. Memory that the library allocated, adopted or imported is
/// given back when the handle and everything made of it (regions, buffers, keys) have gone.
typedef struct hbmwire_allocation hbmwire_allocation;

/// The size of the pages of host memory.
typedef int32_t hbmwire_pages;

enum {
  HBMWIRE_PAGES_NORMAL = 0,   ///< ordinary pages
  HBMWIRE_PAGES_HUGE_2M = 1,  ///< 2 MiB pages of the kernel's pool (vm.nr_hugepages)
  HBMWIRE_PAGES_HUGE_1G = 2,  ///< 1 GiB pages of that pool
};

/// The driver of a Gaudi card.
typedef int32_t hbmwire_gaudi_owner;

enum {
  HBMWIRE_GAUDI_OWNER_AUTOMATIC = 0,  ///< SynapseAI if it is installed, otherwise hl-thunk
  HBMWIRE_GAUDI_OWNER_SYNAPSE = 1,    ///< SynapseAI
  HBMWIRE_GAUDI_OWNER_HL_THUNK = 2,   ///< hl-thunk, or the kernel driver's own calls
};

/// Which device of a type to open, and how. Options for another type than the one that is opened
/// are refused (HBMWIRE_INVALID_ARGUMENT).
typedef struct hbmwire_memory_options {
  size_t struct_size;         ///< set by hbmwire_memory_options_init()
  const char* device;         ///< a PCI address, or an index as "1"; NULL: the first that is free
  hbmwire_gaudi_owner owner;  ///< for Gaudi
  hbmwire_pages pages;        ///< for host memory
  int32_t shared;             ///< for host memory, 1: other processes of this user can map it
  int32_t numa_node;          ///< for host memory; HBMWIRE_UNSET: the kernel chooses
} hbmwire_memory_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_memory_options_init(hbmwire_memory_options* options, size_t struct_size);

/// A dma-buf of any exporter (udmabuf, dma-heap, vgem, DRM, another process).
typedef struct hbmwire_dmabuf {
  size_t struct_size;     ///< set by hbmwire_dmabuf_init()
  void* mapping;          ///< where the application has mapped the byte at `offset_bytes`, or NULL
  uint64_t offset_bytes;  ///< where the memory begins in the dma-buf
  uint64_t length_bytes;  ///< more than 0
  int32_t fd;             ///< stays the application's; the library keeps a duplicate
  int32_t read_only;      ///< 1: registered for reading alone
} hbmwire_dmabuf;

/// Sets the defaults: no descriptor.
HBMWIRE_C_API void hbmwire_dmabuf_init(hbmwire_dmabuf* dmabuf, size_t struct_size);

/// Memory of a Gaudi card that the application allocated and mapped, through hl-thunk or by the
/// driver's own calls.
typedef struct hbmwire_gaudi_memory {
  size_t struct_size;     ///< set by hbmwire_gaudi_memory_init()
  uint64_t base_address;  ///< exactly what hlthunk_device_memory_map() returned
  uint64_t size_bytes;    ///< as allocated
  int32_t device_fd;      ///< as hlthunk_open() gave it; stays the application's
  int32_t reserved;       ///< 0
} hbmwire_gaudi_memory;

/// Sets the defaults: no descriptor.
HBMWIRE_C_API void hbmwire_gaudi_memory_init(hbmwire_gaudi_memory* memory, size_t struct_size);

/// The device's address of the first byte, a pointer only for host memory; 0 for NULL.
HBMWIRE_C_API uint64_t hbmwire_allocation_address(const hbmwire_allocation* allocation);

/// The length, as it was asked for; 0 for NULL.
HBMWIRE_C_API uint64_t hbmwire_allocation_size_bytes(const hbmwire_allocation* allocation);

/// The type of the memory; -1 for NULL.
HBMWIRE_C_API hbmwire_memory_type hbmwire_allocation_type(const hbmwire_allocation* allocation);

/// Lets the memory go.
HBMWIRE_C_API void hbmwire_allocation_free(hbmwire_allocation* allocation);

#ifdef __cplusplus
}
#endif

#endif
