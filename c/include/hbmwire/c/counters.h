// SPDX-License-Identifier: MIT
// Counters of what was moved and what has failed, and traces.
#ifndef HBMWIRE_C_COUNTERS_H
#define HBMWIRE_C_COUNTERS_H

#include "hbmwire/c/context.h"
#include "hbmwire/c/endpoint.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The kind of an operation. Later versions may add kinds.
typedef int32_t hbmwire_transfer_kind;

enum {
  HBMWIRE_KIND_PUT = 0,        ///< puts, also of blocks and prepared lists
  HBMWIRE_KIND_GET = 1,        ///< gets, likewise
  HBMWIRE_KIND_SEND = 2,       ///< messages that were sent
  HBMWIRE_KIND_RECEIVE = 3,    ///< messages that were received
  HBMWIRE_KIND_ATOMIC = 4,     ///< fetch and add, compare and swap
  HBMWIRE_KIND_FLUSH = 5,      ///< flushes
  HBMWIRE_KIND_IMMEDIATE = 6,  ///< immediates that were received
  HBMWIRE_KIND_TASK = 7,       ///< connecting, asking for memory by name, closing
};

/// "put" and so on; "?" for a number that is no kind. Valid as long as the library is loaded.
HBMWIRE_C_API const char* hbmwire_transfer_kind_name(hbmwire_transfer_kind kind);

/// Counters as they were at the time of the call; they do not change (docs/metrics.md).
typedef struct hbmwire_counters hbmwire_counters;

/// The counters of all contexts of this process; of one context, including its workers that have
/// ended; of a worker, including its endpoints that have ended; of one connection. Any thread may
/// ask at any time. Errors: HBMWIRE_EXHAUSTED.
HBMWIRE_C_API hbmwire_status hbmwire_process_counters(hbmwire_counters** counters,
                                                      hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_context_counters(const hbmwire_context* context,
                                                      hbmwire_counters** counters,
                                                      hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_worker_counters(const hbmwire_worker* worker,
                                                     hbmwire_counters** counters,
                                                     hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_counters(const hbmwire_endpoint* endpoint,
                                                       hbmwire_counters** counters,
                                                       hbmwire_error* error);

/// The sums, and the numbers of series. The counts of registrations are of the whole process; they
/// are 0 in the counters of a worker and an endpoint.
typedef struct hbmwire_counters_info {
  size_t struct_size;         ///< set by hbmwire_counters_info_init()
  size_t transfer_count;      ///< series of hbmwire_counters_transfers()
  size_t failure_count;       ///< series of hbmwire_counters_failures()
  size_t times_count;         ///< series of hbmwire_counters_times()
  uint64_t started;           ///< transfers that were ever begun
  uint64_t under_way;         ///< of these, those that have neither succeeded nor failed yet
  uint64_t queued;            ///< transfers that could not be posted at once
  uint64_t credit_waits;      ///< how often messages had to wait for the peer's receives
  uint64_t retries;           ///< repeated attempts to connect
  uint64_t endpoints;         ///< endpoints that are connected or ending now
  uint64_t endpoints_failed;  ///< all connections that ever failed
  uint64_t cache_hits;        ///< look-ups of registration caches that found a registration
  uint64_t cache_misses;      ///< look-ups that registered anew
  uint64_t cache_evictions;   ///< registrations that were dropped to stay within a budget
  uint64_t registrations;     ///< all regions that were ever registered
  uint64_t live;              ///< regions that are registered now
  uint64_t live_bytes;        ///< bytes of these regions
} hbmwire_counters_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_counters_info_init(hbmwire_counters_info* info, size_t struct_size);

/// Gives the sums.
HBMWIRE_C_API hbmwire_status hbmwire_counters_get_info(const hbmwire_counters* counters,
                                                       hbmwire_counters_info* info,
                                                       hbmwire_error* error);

/// Transfers of one series that have succeeded. Text belongs to the counters.
typedef struct hbmwire_transfer_counters {
  size_t struct_size;               ///< set by hbmwire_transfer_counters_init()
  const char* nic;                  ///< the endpoint's first NIC; empty: no endpoint
  const char* peer;                 ///< address of the peer, or "other"
  uint64_t operations;              ///< operations that have succeeded
  uint64_t bytes;                   ///< bytes of these operations
  hbmwire_transfer_kind kind;       ///< the kind of operation
  hbmwire_path path;                ///< the path that was taken
  hbmwire_memory_type local_type;   ///< of this end's memory
  hbmwire_memory_type remote_type;  ///< of the peer's memory; HBMWIRE_UNSET: not known
} hbmwire_transfer_counters;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_transfer_counters_init(hbmwire_transfer_counters* series,
                                                  size_t struct_size);

/// The series at `index`. Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_counters_transfers(const hbmwire_counters* counters,
                                                        size_t index,
                                                        hbmwire_transfer_counters* series,
                                                        hbmwire_error* error);

/// Transfers that have failed for one reason. Text belongs to the counters.
typedef struct hbmwire_failure_counters {
  size_t struct_size;   ///< set by hbmwire_failure_counters_init()
  const char* nic;      ///< as hbmwire_transfer_counters::nic
  const char* peer;     ///< as hbmwire_transfer_counters::peer
  uint64_t operations;  ///< operations that have failed for this reason
  hbmwire_status code;  ///< why they failed
  int32_t reserved;     ///< 0
} hbmwire_failure_counters;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_failure_counters_init(hbmwire_failure_counters* series,
                                                 size_t struct_size);

/// The series at `index`. Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_counters_failures(const hbmwire_counters* counters,
                                                       size_t index,
                                                       hbmwire_failure_counters* series,
                                                       hbmwire_error* error);

// The buckets of hbmwire_transfer_times.
#define HBMWIRE_TIME_BUCKETS 32

/// The upper bound of a bucket, in nanoseconds: its transfers took no longer. 128 for the first
/// one, and each further bound is twice the one before it. HBMWIRE_FOREVER for the last bucket, and
/// for greater numbers.
HBMWIRE_C_API int64_t hbmwire_time_bucket_bound_ns(size_t bucket);

/// Times of transfers of one series that have succeeded. One transfer in 64 is timed, or all if the
/// worker's options say `times`.
typedef struct hbmwire_transfer_times {
  size_t struct_size;                        ///< set by hbmwire_transfer_times_init()
  uint64_t transfers[HBMWIRE_TIME_BUCKETS];  ///< how many are in each bucket alone
  uint64_t count;                            ///< sum of all buckets
  int64_t sum_ns;                            ///< sum of their times
  hbmwire_transfer_kind kind;                ///< the kind of operation
  hbmwire_path path;                         ///< the path that was taken
  hbmwire_memory_type local_type;            ///< of this end's memory
  hbmwire_memory_type remote_type;           ///< of the peer's memory; HBMWIRE_UNSET: not known
} hbmwire_transfer_times;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_transfer_times_init(hbmwire_transfer_times* series, size_t struct_size);

/// The series at `index`. Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_counters_times(const hbmwire_counters* counters, size_t index,
                                                    hbmwire_transfer_times* series,
                                                    hbmwire_error* error);

/// Ends the counters and all their text.
HBMWIRE_C_API void hbmwire_counters_free(hbmwire_counters* counters);

/// A process that publishes its counters (HBMWIRE_STATS=yes), followed from outside.
typedef struct hbmwire_published hbmwire_published;

/// The process with this id. Errors: HBMWIRE_NOT_FOUND (it does not exist, or does not publish),
/// HBMWIRE_PERMISSION_DENIED (it is another user's).
HBMWIRE_C_API hbmwire_status hbmwire_published_find(uint32_t process, hbmwire_published** published,
                                                    hbmwire_error* error);

/// Writes the ids of the processes that publish their counters, as many as there is room for, and
/// tells how many there are. `processes` may be NULL if `capacity` is 0.
HBMWIRE_C_API hbmwire_status hbmwire_published_list(uint32_t* processes, size_t capacity,
                                                    size_t* count, hbmwire_error* error);

/// Whether it still runs; false for NULL.
HBMWIRE_C_API bool hbmwire_published_is_running(const hbmwire_published* published);

/// Its counters now, or at its end. Errors: HBMWIRE_PROTOCOL (another version of the library).
HBMWIRE_C_API hbmwire_status hbmwire_published_read(const hbmwire_published* published,
                                                    hbmwire_counters** counters,
                                                    hbmwire_error* error);

/// Stops following the process.
HBMWIRE_C_API void hbmwire_published_free(hbmwire_published* published);

/// Calls `use` with each counter of a NIC's ports, as its driver publishes them; makes no call if
/// the driver has none. Names are valid during the call. Errors: HBMWIRE_EXHAUSTED.
HBMWIRE_C_API hbmwire_status hbmwire_nic_counters(const char* nic,
                                                  void (*use)(void* context, uint32_t port,
                                                              const char* name, uint64_t value),
                                                  void* context, hbmwire_error* error);

/// A trace of all transfers of this process, into a file (docs/tracing.md). One at a time.
typedef struct hbmwire_trace hbmwire_trace;

/// How many transfers a trace has.
typedef struct hbmwire_trace_counts {
  size_t struct_size;     ///< set by hbmwire_trace_counts_init()
  uint64_t transfers;     ///< written
  uint64_t dropped_busy;  ///< left out: they ended faster than they could be written
  uint64_t dropped_full;  ///< left out: the file had reached its limit, or the disk was full
} hbmwire_trace_counts;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_trace_counts_init(hbmwire_trace_counts* counts, size_t struct_size);

/// Begins a trace into `file` ("%p" stands for the process id), of `most_bytes` at most; 0: 256
/// MiB. Errors: HBMWIRE_BUSY (a trace is on already); HBMWIRE_INVALID_ARGUMENT; why the file can't
/// be made.
HBMWIRE_C_API hbmwire_status hbmwire_trace_start(const char* file, uint64_t most_bytes,
                                                 hbmwire_trace** trace, hbmwire_error* error);

/// Ends the trace, once all transfers that were over before are written. `counts` may be NULL.
/// Errors: the file could not be written; HBMWIRE_NOT_FOUND: the trace was stopped before.
HBMWIRE_C_API hbmwire_status hbmwire_trace_stop(hbmwire_trace* trace, hbmwire_trace_counts* counts,
                                                hbmwire_error* error);

/// The name of its file; empty for NULL. Valid as long as the trace.
HBMWIRE_C_API const char* hbmwire_trace_file(const hbmwire_trace* trace);

/// As hbmwire_trace_stop(), and frees the handle.
HBMWIRE_C_API void hbmwire_trace_free(hbmwire_trace* trace);

#ifdef __cplusplus
}
#endif

#endif
