// SPDX-License-Identifier: MIT
// Operations that were started, and how they went.
#ifndef HBMWIRE_C_TRANSFER_H
#define HBMWIRE_C_TRANSFER_H

#include "hbmwire/c/error.h"
#include "hbmwire/c/region.h"

#ifdef __cplusplus
extern "C" {
#endif

/// An operation that was started. Freeing the handle does not end the operation, and its memory
/// must stay registered until it is over: call hbmwire_transfer_wait() or hbmwire_transfer_cancel()
/// before. Threads: its worker's.
typedef struct hbmwire_transfer hbmwire_transfer;

/// How a transfer went. It outlives the transfer, and owns the strings that its functions give.
typedef struct hbmwire_report hbmwire_report;

/// Frees the handle: the operation goes on without it.
HBMWIRE_C_API void hbmwire_transfer_free(hbmwire_transfer* transfer);

/// Drives the worker once; never blocks. `over` is true when the operation is over and succeeded,
/// false while it goes on. Errors: why it failed.
HBMWIRE_C_API hbmwire_status hbmwire_transfer_poll(hbmwire_transfer* transfer, bool* over,
                                                   hbmwire_error* error);

/// Whether it is over. Does not drive the worker. True for NULL.
HBMWIRE_C_API bool hbmwire_transfer_done(const hbmwire_transfer* transfer);

/// Waits until it is over. At the deadline, or when `cancel_fd` becomes readable, cancels it, which
/// may take hbmwire_endpoint_options::peer_timeout_ns more. The error is then HBMWIRE_TIMED_OUT or
/// HBMWIRE_CANCELLED. Errors besides: why it failed.
HBMWIRE_C_API hbmwire_status hbmwire_transfer_wait(hbmwire_transfer* transfer, int64_t timeout_ns,
                                                   int32_t cancel_fd, hbmwire_error* error);

/// Calls hbmwire_transfer_poll() again and again until the operation is over or the wait ends. If
/// the wait has ended, `over` is false, and the transfer goes on undisturbed.
HBMWIRE_C_API hbmwire_status hbmwire_transfer_poll_until(hbmwire_transfer* transfer,
                                                         int64_t timeout_ns, int32_t cancel_fd,
                                                         bool* over, hbmwire_error* error);

/// Makes hbmwire_worker_next_done() give this transfer, with `cookie`, once it is over. The handle
/// may go before.
HBMWIRE_C_API hbmwire_status hbmwire_transfer_notify(hbmwire_transfer* transfer, uint64_t cookie,
                                                     hbmwire_error* error);

/// Ends it, complete or not. A receive that no message has matched yet is only withdrawn. For any
/// other operation under way, the connection is broken on both sides, so that none of its bytes can
/// arrive later. Errors: HBMWIRE_TIMED_OUT, the peer did not say that its side is broken.
HBMWIRE_C_API hbmwire_status hbmwire_transfer_cancel(hbmwire_transfer* transfer,
                                                     hbmwire_error* error);

/// hbmwire_transfer_cancel() without waiting: hbmwire_transfer_poll() tells when it is over. Its
/// memory stays in use until then. Errors: HBMWIRE_NOT_SUPPORTED, in a child by fork(2).
HBMWIRE_C_API hbmwire_status hbmwire_transfer_request_cancel(hbmwire_transfer* transfer,
                                                             hbmwire_error* error);

/// After a failure: whether the operation can no longer change the peer's memory; true for NULL.
HBMWIRE_C_API bool hbmwire_transfer_settled(const hbmwire_transfer* transfer);

/// Length of the operation in bytes. For a receive that is over, the length of the message that
/// arrived.
HBMWIRE_C_API uint64_t hbmwire_transfer_bytes(const hbmwire_transfer* transfer);

/// The result of an operation that is over. For an atomic: the value that was there before. For a
/// receive of an immediate: the immediate. For a tagged receive: the tag.
HBMWIRE_C_API uint64_t hbmwire_transfer_value(const hbmwire_transfer* transfer);

/// The path by which it goes: the worse one of both ends' paths, as far as it is known; -1 for
/// NULL.
HBMWIRE_C_API hbmwire_path hbmwire_transfer_path(const hbmwire_transfer* transfer);

/// How it goes, or went, and why no better path was taken.
HBMWIRE_C_API hbmwire_status hbmwire_transfer_explain(const hbmwire_transfer* transfer,
                                                      hbmwire_report** report,
                                                      hbmwire_error* error);

/// Facts about a report. Times are of CLOCK_MONOTONIC.
typedef struct hbmwire_report_info {
  size_t struct_size;               ///< set by hbmwire_report_info_init()
  const char* nic;                  ///< this end's NIC
  const char* peer;                 ///< the address that this end connected to or accepted
  size_t local_count;               ///< how many paths of this end's memory hbmwire_report_local()
                                    ///< has
  size_t rail_count;                ///< how many NICs hbmwire_report_rail() has; 0: it went by one
  int64_t asked_ns;                 ///< when it was started; HBMWIRE_UNSET: not known
  int64_t posted_ns;                ///< when all of it was posted or moved; HBMWIRE_UNSET: not
                                    ///< known
  int64_t over_ns;                  ///< when it was over; HBMWIRE_UNSET: not known
  hbmwire_path path;                ///< the worse one of both ends' paths
  hbmwire_protocol protocol;        ///< how the bytes were handed over
  hbmwire_memory_type local_type;   ///< of this end's memory
  hbmwire_memory_type remote_type;  ///< of the peer's memory; HBMWIRE_UNSET: not known
  hbmwire_path remote_path;         ///< of the peer's memory; HBMWIRE_UNSET: not known
  int32_t reserved;                 ///< 0
} hbmwire_report_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_report_info_init(hbmwire_report_info* info, size_t struct_size);

/// Gives the facts about a report.
HBMWIRE_C_API hbmwire_status hbmwire_report_get_info(const hbmwire_report* report,
                                                     hbmwire_report_info* info,
                                                     hbmwire_error* error);

/// The report as a sentence. As hbmwire_error_describe().
HBMWIRE_C_API size_t hbmwire_report_describe(const hbmwire_report* report, char* text,
                                             size_t capacity);

/// A path of this end's memory; whether an engine of this process carried it; and whether an engine
/// of the peer's process carried it, or shared memory. `refusal`, which may be NULL, tells why not.
/// Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_report_local(const hbmwire_report* report, size_t index,
                                                  hbmwire_path_tried* tried, hbmwire_error* refusal,
                                                  hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_report_copy(const hbmwire_report* report,
                                                 hbmwire_path_tried* tried, hbmwire_error* refusal,
                                                 hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_report_ipc(const hbmwire_report* report,
                                                hbmwire_path_tried* tried, hbmwire_error* refusal,
                                                hbmwire_error* error);

/// One of several NICs that carried it, and the number of bytes. Errors: HBMWIRE_INVALID_ARGUMENT,
/// no such index.
HBMWIRE_C_API hbmwire_status hbmwire_report_rail(const hbmwire_report* report, size_t index,
                                                 const char** nic, uint64_t* bytes,
                                                 hbmwire_error* error);

/// Ends it.
HBMWIRE_C_API void hbmwire_report_free(hbmwire_report* report);

#ifdef __cplusplus
}
#endif

#endif
