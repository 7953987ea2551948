// SPDX-License-Identifier: MIT
// Registrations of memory that comes and goes.
#ifndef HBMWIRE_C_REGISTRATION_H
#define HBMWIRE_C_REGISTRATION_H

#include "hbmwire/c/context.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/region.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Registrations that are kept for the next use of the same memory (docs/registration.md). A
/// look-up never finds a registration of memory that has gone. Threads: any.
typedef struct hbmwire_registration_cache hbmwire_registration_cache;

/// The use of a cached registration: while it lives, memory stays registered. Any thread may free
/// it; it costs least in the thread that got it.
typedef struct hbmwire_registration_lease hbmwire_registration_lease;

/// Whether a request for a part registers the whole allocation.
typedef int32_t hbmwire_whole;

enum {
  HBMWIRE_WHOLE_AUTOMATIC = 0,  ///< device memory: if it is at most `whole_ratio` of the device's
                                ///< memory
  HBMWIRE_WHOLE_ON = 1,         ///< every allocation that can be told from a later one at its
                                ///< address
  HBMWIRE_WHOLE_OFF = 2,        ///< never
};

/// Whether host memory of the application is watched; only watched memory is kept.
typedef int32_t hbmwire_watch;

enum {
  HBMWIRE_WATCH_NO = 0,      ///< not watched: registered for each use
  HBMWIRE_WATCH_YES = 1,     ///< for programs in which a thread that frees memory is done before
                             ///< another one allocates
  HBMWIRE_WATCH_STRICT = 2,  ///< each look-up also asks the kernel whether memory is being unmapped
};

/// How memory is registered, and which registrations are kept.
typedef struct hbmwire_registration_options {
  size_t struct_size;    ///< set by hbmwire_registration_options_init()
  double whole_ratio;    ///< 0 to 1: 0.1
  uint64_t max_regions;  ///< memory regions at most, over all NICs: 65536
  uint64_t max_bytes;    ///< bytes of registered memory at most: UINT64_MAX
  uint64_t max_dmabufs;  ///< descriptors of dma-bufs at most: 1024
  hbmwire_whole whole;   ///< HBMWIRE_WHOLE_AUTOMATIC
  hbmwire_watch watch;   ///< HBMWIRE_WATCH_STRICT
} hbmwire_registration_options;

/// Sets the library's defaults. Without options, the cache takes the user's settings.
HBMWIRE_C_API void hbmwire_registration_options_init(hbmwire_registration_options* options,
                                                     size_t struct_size);

/// A cache of registrations with NICs by their names, as hbmwire_context_options::nics; none: with
/// the context's. Errors: HBMWIRE_INVALID_ARGUMENT; HBMWIRE_STAGE_PROBE, HBMWIRE_STAGE_OPEN.
HBMWIRE_C_API hbmwire_status
hbmwire_registration_cache_create(const hbmwire_context* context, const char* const* nics,
                                  size_t nic_count, const hbmwire_registration_options* options,
                                  hbmwire_registration_cache** cache, hbmwire_error* error);

/// Frees the handle; leases stay.
HBMWIRE_C_API void hbmwire_registration_cache_free(hbmwire_registration_cache* cache);

/// The registration of [address, address + length_bytes) for exactly this access. If there is none,
/// registers the memory. Errors: as hbmwire_context_register_memory().
HBMWIRE_C_API hbmwire_status hbmwire_registration_cache_get(const hbmwire_registration_cache* cache,
                                                            uint64_t address, uint64_t length_bytes,
                                                            hbmwire_access access,
                                                            hbmwire_registration_lease** lease,
                                                            hbmwire_error* error);

/// The same for a dma-buf that the application brings. The cache knows the dma-buf again under any
/// descriptor number.
HBMWIRE_C_API hbmwire_status hbmwire_registration_cache_get_dmabuf(
    const hbmwire_registration_cache* cache, const hbmwire_dmabuf* dmabuf, hbmwire_access access,
    hbmwire_registration_lease** lease, hbmwire_error* error);

/// Forgets registrations that overlap [address, address + length_bytes).
HBMWIRE_C_API hbmwire_status
hbmwire_registration_cache_drop(const hbmwire_registration_cache* cache, uint64_t address,
                                uint64_t length_bytes, hbmwire_error* error);

/// Forgets every registration that is not in use.
HBMWIRE_C_API hbmwire_status hbmwire_registration_cache_drop_unused(
    const hbmwire_registration_cache* cache, hbmwire_error* error);

/// Counts of a cache's work, and its present size.
typedef struct hbmwire_registration_statistics {
  size_t struct_size;       ///< set by hbmwire_registration_statistics_init()
  uint64_t hits;            ///< look-ups that found a registration
  uint64_t misses;          ///< look-ups that registered anew
  uint64_t evictions;       ///< registrations that were dropped to stay within a budget
  uint64_t invalidations;   ///< registrations that were dropped because their memory had gone
  uint64_t not_kept;        ///< registered for one use
  uint64_t regions;         ///< registered now, whether cached or in use
  uint64_t bytes;           ///< of these regions
  uint64_t memory_regions;  ///< MRs: one for each region and NIC
  uint64_t dmabufs;         ///< descriptors that they hold
  uint64_t in_use;          ///< of the regions: those with a lease
} hbmwire_registration_statistics;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_registration_statistics_init(hbmwire_registration_statistics* statistics,
                                                        size_t struct_size);

/// Counts since the cache was made, and its present size.
HBMWIRE_C_API hbmwire_status hbmwire_registration_cache_statistics(
    const hbmwire_registration_cache* cache, hbmwire_registration_statistics* statistics,
    hbmwire_error* error);

/// The registered region, which may be more than was asked for, and the part of it that was asked
/// for. The region belongs to the lease. NULL, and an empty slice, for NULL.
HBMWIRE_C_API const hbmwire_region* hbmwire_registration_lease_region(
    const hbmwire_registration_lease* lease);
HBMWIRE_C_API hbmwire_slice
hbmwire_registration_lease_slice(const hbmwire_registration_lease* lease);

/// Ends the use.
HBMWIRE_C_API void hbmwire_registration_lease_free(hbmwire_registration_lease* lease);

#ifdef __cplusplus
}
#endif

#endif
