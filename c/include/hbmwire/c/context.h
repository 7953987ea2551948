// SPDX-License-Identifier: MIT
// The memory and the NICs of this machine.
#ifndef HBMWIRE_C_CONTEXT_H
#define HBMWIRE_C_CONTEXT_H

#include "hbmwire/c/error.h"
#include "hbmwire/c/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The memory and the NICs of this machine, looked for once. Everything made with a context keeps
/// what it needs, so the handle may be freed first. Threads: any.
typedef struct hbmwire_context hbmwire_context;

/// How a context is made. Arrays and strings are copied.
typedef struct hbmwire_context_options {
  size_t struct_size;                       ///< set by hbmwire_context_options_init()
  const hbmwire_memory_type* memory_types;  ///< types to look for; none: all
  size_t memory_type_count;                 ///< how many there are
  const char* const* nics;                  ///< as "mlx5_0", "mlx5_0:2"; "none" alone: by TCP
  size_t nic_count;                         ///< how many there are; 0: the first NIC that is found
  const char* default_device;       ///< the device that is meant if several have one address; NULL:
                                    ///< the setting's
  const hbmwire_path* allow_paths;  ///< the only paths of memory; none: all
  size_t allow_path_count;          ///< how many there are
  hbmwire_path require_path;        ///< the only path of device memory; HBMWIRE_UNSET: any
  int32_t gid_index;                ///< in the ports' GID tables; HBMWIRE_UNSET: the library
                                    ///< chooses
} hbmwire_context_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_context_options_init(hbmwire_context_options* options,
                                                size_t struct_size);

/// Looks for devices. Missing hardware is no error: hbmwire_context_memory() says why it is
/// missing. Errors: HBMWIRE_STAGE_CONFIGURE (an invalid setting, a path policy that contradicts
/// itself).
HBMWIRE_C_API hbmwire_status hbmwire_context_create(const hbmwire_context_options* options,
                                                    hbmwire_context** context,
                                                    hbmwire_error* error);

/// Ends it.
HBMWIRE_C_API void hbmwire_context_free(hbmwire_context* context);

/// One type of memory as it was found, without opening anything.
typedef struct hbmwire_memory_probe {
  size_t struct_size;        ///< set by hbmwire_memory_probe_init()
  const char* library;       ///< the driver library: "libcuda.so.1, driver API 12.8"; may be empty
  size_t device_count;       ///< how many devices there are
  hbmwire_memory_type type;  ///< the type that was looked for
  int32_t reserved;          ///< 0
} hbmwire_memory_probe;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_memory_probe_init(hbmwire_memory_probe* probe, size_t struct_size);

/// The device behind memory. Its strings are the context's.
typedef struct hbmwire_device {
  size_t struct_size;        ///< set by hbmwire_device_init()
  const char* name;          ///< "host", or the device: "gaudi2 0000:33:00.0"
  const char* pci_address;   ///< "dddd:bb:dd.f"; empty for host memory
  const char* driven_by;     ///< "SynapseAI", "CUDA", ...; may be empty
  const char* status;        ///< as its driver reported it: "Operational"; may be empty
  uint64_t size_bytes;       ///< all of the device's memory; 0: unknown
  uint64_t page_bytes;       ///< an allocation occupies whole pages of this size
  hbmwire_memory_type type;  ///< the type of its memory
  int32_t numa_node;         ///< -1: unknown
} hbmwire_device;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_device_init(hbmwire_device* device, size_t struct_size);

/// The devices of a type. `missing`, which may be NULL, tells why there is no device, or is
/// HBMWIRE_OK. Errors: HBMWIRE_NOT_FOUND, a type that was not looked for.
HBMWIRE_C_API hbmwire_status hbmwire_context_memory(const hbmwire_context* context,
                                                    hbmwire_memory_type type,
                                                    hbmwire_memory_probe* probe,
                                                    hbmwire_error* missing, hbmwire_error* error);

/// The device of a type at `index`. Errors: HBMWIRE_NOT_FOUND.
HBMWIRE_C_API hbmwire_status hbmwire_context_device(const hbmwire_context* context,
                                                    hbmwire_memory_type type, size_t index,
                                                    hbmwire_device* device, hbmwire_error* error);

/// How memory shows that it has gone.
typedef int32_t hbmwire_lifetime;

enum {
  HBMWIRE_LIFETIME_USE = 0,            ///< not at all: keep nothing after one use
  HBMWIRE_LIFETIME_ALLOCATION = 1,     ///< its last handle goes
  HBMWIRE_LIFETIME_GENERATION = 2,     ///< `generation` changes
  HBMWIRE_LIFETIME_ADDRESS_SPACE = 3,  ///< it is unmapped, moved or discarded
};

/// The facts that are known of an address.
typedef struct hbmwire_address_info {
  size_t struct_size;         ///< set by hbmwire_address_info_init()
  uint64_t base_address;      ///< of the allocation that holds it
  uint64_t size_bytes;        ///< of that allocation
  uint64_t generation;        ///< differs for each allocation of the process; 0: unknown
  const char* device_name;    ///< the context's
  const char* pci_address;    ///< the context's; empty for host memory
  hbmwire_memory_type type;   ///< the type of the memory
  hbmwire_path path;          ///< how a NIC would reach it
  hbmwire_path otherwise;     ///< a path that may be taken if `path` fails; HBMWIRE_UNSET: none
  hbmwire_lifetime lifetime;  ///< how its end shows
} hbmwire_address_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_address_info_init(hbmwire_address_info* info, size_t struct_size);

/// Finds out to which device [address, address + length_bytes) belongs; opens nothing. `device`, a
/// PCI address or an index, is for addresses that several Gaudi cards have; NULL: none. `no_dmabuf`
/// and `refusal`, which may be NULL, tell why `path` is not zero copy, and why no NIC reaches the
/// memory. Errors: HBMWIRE_INVALID_ARGUMENT, the address is ambiguous, or the range leaves its
/// allocation.
HBMWIRE_C_API hbmwire_status hbmwire_context_find(const hbmwire_context* context, uint64_t address,
                                                  uint64_t length_bytes, const char* device,
                                                  hbmwire_address_info* info,
                                                  hbmwire_error* no_dmabuf, hbmwire_error* refusal,
                                                  hbmwire_error* error);

/// The application's own memory at [address, address + length_bytes), in whichever memory
/// hbmwire_context_find() says it lies. Opens its device. Errors: as hbmwire_context_find();
/// HBMWIRE_STAGE_OPEN.
HBMWIRE_C_API hbmwire_status hbmwire_context_borrow(const hbmwire_context* context,
                                                    uint64_t address, uint64_t length_bytes,
                                                    const char* device,
                                                    hbmwire_allocation** allocation,
                                                    hbmwire_error* error);

/// Makes Gaudi memory of the application known, until the last handle has gone. The application can
/// unmap and free the memory only after that. Errors: HBMWIRE_STAGE_OPEN (not the fd of a Gaudi),
/// HBMWIRE_INVALID_ARGUMENT (known already).
HBMWIRE_C_API hbmwire_status hbmwire_context_adopt(const hbmwire_context* context,
                                                   const hbmwire_gaudi_memory* memory,
                                                   hbmwire_allocation** allocation,
                                                   hbmwire_error* error);

/// Makes a dma-buf of any exporter known, until the last handle has gone. Errors:
/// HBMWIRE_STAGE_OPEN; HBMWIRE_INVALID_ARGUMENT, not a dma-buf, too short, a mapping at another
/// place of its page than the offset, or a mapping that another import has.
HBMWIRE_C_API hbmwire_status hbmwire_context_import_dmabuf(const hbmwire_context* context,
                                                           const hbmwire_dmabuf* dmabuf,
                                                           hbmwire_allocation** allocation,
                                                           hbmwire_error* error);

/// New memory of the first device of a type, or of the device that `options` name. Errors:
/// HBMWIRE_STAGE_PROBE (no such device), HBMWIRE_STAGE_OPEN, HBMWIRE_STAGE_ALLOCATE.
HBMWIRE_C_API hbmwire_status hbmwire_context_allocate(const hbmwire_context* context,
                                                      hbmwire_memory_type type, uint64_t size_bytes,
                                                      const hbmwire_memory_options* options,
                                                      hbmwire_allocation** allocation,
                                                      hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
