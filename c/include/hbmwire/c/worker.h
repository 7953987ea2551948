// SPDX-License-Identifier: MIT
// Progress, and transfers that are over.
#ifndef HBMWIRE_C_WORKER_H
#define HBMWIRE_C_WORKER_H

#include "hbmwire/c/context.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/message.h"
#include "hbmwire/c/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The part that makes progress for endpoints: one for each thread that communicates. Its endpoints
/// hold it, so the handle may be freed first. Threads: one at a time, unless it was made for more.
typedef struct hbmwire_worker hbmwire_worker;

/// The threads that use a worker.
typedef int32_t hbmwire_threads;

enum {
  HBMWIRE_THREADS_ONE = 0,  ///< one thread at a time; the program takes care of that
  HBMWIRE_THREADS_ANY = 1,  ///< any thread at any time: all functions take a lock
  /// As ANY, and a thread of the library makes progress whenever the application does not.
  HBMWIRE_THREADS_PROGRESS = 2,
};

/// How many transfers a worker has, and how much memory it takes for messages.
typedef struct hbmwire_worker_options {
  size_t struct_size;           ///< set by hbmwire_worker_options_init()
  uint64_t receive_pool_bytes;  ///< bytes for receives that endpoints share: 8 MiB
  uint64_t unexpected_bytes;    ///< bytes for messages that came before their receives: 64 MiB
  uint32_t max_transfers;       ///< transfers at a time, 1 to 1,048,576: 4096
  uint32_t eager_bytes;         ///< longest message that may come at once: 8192
  hbmwire_threads threads;      ///< the threads that use it: HBMWIRE_THREADS_ONE
  int32_t times;                ///< 1: reports say when a transfer was asked for, posted and over
} hbmwire_worker_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_worker_options_init(hbmwire_worker_options* options, size_t struct_size);

/// Makes a worker, and opens the context's NICs unless they are open. Errors: HBMWIRE_STAGE_OPEN;
/// HBMWIRE_STAGE_CONFIGURE, invalid options; HBMWIRE_EXHAUSTED.
HBMWIRE_C_API hbmwire_status hbmwire_worker_create(const hbmwire_context* context,
                                                   const hbmwire_worker_options* options,
                                                   hbmwire_worker** worker, hbmwire_error* error);

/// Frees the handle. The worker ends with its last endpoint and listener.
HBMWIRE_C_API void hbmwire_worker_free(hbmwire_worker* worker);

/// Handles everything that has happened, without blocking. Returns the number of completions,
/// messages and connections that it handled.
HBMWIRE_C_API size_t hbmwire_worker_progress(hbmwire_worker* worker);

/// A descriptor for poll(2). After hbmwire_worker_arm() it becomes readable when there is something
/// to do. It belongs to the worker, which closes it; -1 for NULL.
HBMWIRE_C_API int32_t hbmwire_worker_fd(const hbmwire_worker* worker);

/// Call it before sleeping on hbmwire_worker_fd(). `may_sleep` is false if something has happened
/// meanwhile: then call hbmwire_worker_progress() instead. Errors: HBMWIRE_STAGE_COMPLETE.
HBMWIRE_C_API hbmwire_status hbmwire_worker_arm(hbmwire_worker* worker, bool* may_sleep,
                                                hbmwire_error* error);

/// How long a program may sleep, from now on, before it must call hbmwire_worker_progress(), in
/// milliseconds; 0 for NULL.
HBMWIRE_C_API int32_t hbmwire_worker_wake_after_ms(const hbmwire_worker* worker);

/// A transfer that is over, as hbmwire_worker_next_done() gives it.
typedef struct hbmwire_done {
  size_t struct_size;     ///< set by hbmwire_done_init()
  uint64_t cookie;        ///< as given to hbmwire_transfer_notify()
  uint64_t bytes;         ///< hbmwire_transfer_bytes()
  uint64_t value;         ///< hbmwire_transfer_value()
  hbmwire_status status;  ///< HBMWIRE_OK, or why it failed
  int32_t settled;        ///< hbmwire_transfer_settled()
} hbmwire_done;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_done_init(hbmwire_done* done, size_t struct_size);

/// The next transfer that is over and for which hbmwire_transfer_notify() was called, in the order
/// in which they ended. Drives the worker once if there is none yet; never blocks. `found`: whether
/// there is one. `why`, which may be NULL, tells why it failed, or is HBMWIRE_OK.
HBMWIRE_C_API hbmwire_status hbmwire_worker_next_done(hbmwire_worker* worker, hbmwire_done* done,
                                                      bool* found, hbmwire_error* why,
                                                      hbmwire_error* error);

/// The next message of any endpoint that hands its messages out, in the order in which they came;
/// NULL if there is none. Drives the worker once if there is none yet; never blocks.
HBMWIRE_C_API hbmwire_status hbmwire_worker_next_message(hbmwire_worker* worker,
                                                         hbmwire_message** message,
                                                         hbmwire_error* error);

/// Waits until one of `count` transfers is over, and gives the index of the first such one, even if
/// it failed. `found` is false if the wait ends before; all of them go on then. Ignores NULL
/// handles. For many transfers hbmwire_worker_next_done() costs less. Errors:
/// HBMWIRE_INVALID_ARGUMENT, there is none, or one is of another worker.
HBMWIRE_C_API hbmwire_status hbmwire_worker_wait_any(hbmwire_worker* worker,
                                                     hbmwire_transfer* const* transfers,
                                                     size_t count, int64_t timeout_ns,
                                                     int32_t cancel_fd, size_t* index, bool* found,
                                                     hbmwire_error* error);

/// Waits until all of `count` transfers are over. `over` is true if all succeeded, and false if the
/// wait ends before. Errors: that of the first one that failed; HBMWIRE_INVALID_ARGUMENT, one is of
/// another worker.
HBMWIRE_C_API hbmwire_status hbmwire_worker_wait_all(hbmwire_worker* worker,
                                                     hbmwire_transfer* const* transfers,
                                                     size_t count, int64_t timeout_ns,
                                                     int32_t cancel_fd, bool* over,
                                                     hbmwire_error* error);

/// Sleeps until there is work for hbmwire_worker_progress(), which it then does, or something for
/// hbmwire_worker_next_done() or hbmwire_worker_next_message() to give. Errors: HBMWIRE_TIMED_OUT,
/// HBMWIRE_CANCELLED.
HBMWIRE_C_API hbmwire_status hbmwire_worker_wait(hbmwire_worker* worker, int64_t timeout_ns,
                                                 int32_t cancel_fd, hbmwire_error* error);

/// Makes bytes that NICs have written into this memory before the call visible to the device's own
/// engines. A receive, a get and a receive of an immediate do so by themselves.
HBMWIRE_C_API hbmwire_status hbmwire_worker_flush(hbmwire_worker* worker,
                                                  const hbmwire_slice* memory,
                                                  hbmwire_transfer** transfer,
                                                  hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
