// SPDX-License-Identifier: MIT
// Processes that a launcher has started together.
#ifndef HBMWIRE_C_GROUP_H
#define HBMWIRE_C_GROUP_H

#include "hbmwire/c/endpoint.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/region.h"
#include "hbmwire/c/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Processes that a launcher has started together (docs/groups.md). Each has a rank, exchanges
/// bytes with all others, and gets an endpoint to any of them when it first asks. An error of a
/// group names the ranks that it concerns in hbmwire_error::subject: "ranks 1, 3-7". Threads: its
/// worker's. Functions with a timeout drive the worker. All ranks call them in the same order; only
/// hbmwire_group_endpoint() needs no call of the other ranks.
typedef struct hbmwire_group hbmwire_group;

/// The bytes that the ranks gave in an exchange. Threads: any.
typedef struct hbmwire_exchanged hbmwire_exchanged;

/// How the processes of a group find each other. Options that are left open come from the settings
/// (HBMWIRE_GROUP, HBMWIRE_GROUP_RANK, HBMWIRE_GROUP_SIZE), else from the launcher.
typedef struct hbmwire_group_options {
  size_t struct_size;   ///< set by hbmwire_group_options_init()
  const char* meeting;  ///< "tcp://host:port", "pmix", "file:///path", "etcd://host:port/name" or
                        ///< "env"; NULL: the setting's, else the launcher's
  const char* address;  ///< of this machine, for the other ranks; NULL: all
  const hbmwire_endpoint_options* endpoint;  ///< of the endpoints between ranks, without `hello`
                                             ///< and `retry_connect`; NULL: the defaults
  int32_t rank;  ///< of this process, 0 to size - 1; HBMWIRE_UNSET: the launcher's
  int32_t size;  ///< how many processes there are, 1 to 4096; HBMWIRE_UNSET: the launcher's
} hbmwire_group_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_group_options_init(hbmwire_group_options* options, size_t struct_size);

/// Meets the other ranks: waits until all of them are there. A process that replaces one that has
/// ended joins by the same call, when the others call hbmwire_group_rejoin(). Errors:
/// HBMWIRE_STAGE_CONFIGURE: HBMWIRE_NOT_FOUND (nothing says where to meet, or which rank this is),
/// HBMWIRE_INVALID_ARGUMENT; HBMWIRE_STAGE_CONNECT: HBMWIRE_TIMED_OUT (the ranks that did not come
/// are the subject), HBMWIRE_PERMISSION_DENIED (the pre-shared keys differ), HBMWIRE_BUSY (another
/// process has this rank, or the meeting point's port), HBMWIRE_PROTOCOL (the ranks do not agree on
/// the size), HBMWIRE_CANCELLED; as hbmwire_worker_create() and hbmwire_listener_create().
HBMWIRE_C_API hbmwire_status hbmwire_group_create(hbmwire_worker* worker, int64_t timeout_ns,
                                                  int32_t cancel_fd,
                                                  const hbmwire_group_options* options,
                                                  hbmwire_group** group, hbmwire_error* error);

/// Leaves the group, and ends its endpoints and their handles. The other ranks take that for an end
/// of this rank, unless all ranks leave after the same call.
HBMWIRE_C_API void hbmwire_group_free(hbmwire_group* group);

/// The number of this process, 0 to size - 1; how many processes there are; the number of the
/// meeting: 1, and one more after each hbmwire_group_rejoin(). 0 for NULL.
HBMWIRE_C_API uint32_t hbmwire_group_rank(const hbmwire_group* group);
HBMWIRE_C_API uint32_t hbmwire_group_size(const hbmwire_group* group);
HBMWIRE_C_API uint32_t hbmwire_group_epoch(const hbmwire_group* group);

/// The source of rank, size and meeting: "PMIx", "torchrun's environment" and so on. The text
/// belongs to the group; NULL for NULL.
HBMWIRE_C_API const char* hbmwire_group_launcher(const hbmwire_group* group);

/// One process of a group. Its text belongs to the group, until hbmwire_group_rejoin().
typedef struct hbmwire_group_member {
  size_t struct_size;    ///< set by hbmwire_group_member_init()
  const char* host;      ///< the name of its machine, gethostname(2)
  size_t address_count;  ///< how many addresses hbmwire_group_address() has of it
  uint32_t rank;         ///< 0 to size - 1
  uint32_t reserved;     ///< 0
} hbmwire_group_member;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_group_member_init(hbmwire_group_member* member, size_t struct_size);

/// Gives the facts about a rank. Errors: HBMWIRE_INVALID_ARGUMENT (there is no such rank).
HBMWIRE_C_API hbmwire_status hbmwire_group_get_member(const hbmwire_group* group, uint32_t rank,
                                                      hbmwire_group_member* member,
                                                      hbmwire_error* error);

/// One of the addresses where a rank accepts endpoints: "host:port". NULL after the last one, and
/// for a rank that does not exist. The text belongs to the group, until hbmwire_group_rejoin().
HBMWIRE_C_API const char* hbmwire_group_address(const hbmwire_group* group, uint32_t rank,
                                                size_t index);

/// Ranks that are known to have ended since the last meeting, or were given up by
/// hbmwire_group_exchange_among_present(), in rising order. Does not wait. Writes as many of them
/// as `capacity` has room for, and their number to `count`; `ranks` may be NULL if `capacity` is 0.
HBMWIRE_C_API hbmwire_status hbmwire_group_failed(hbmwire_group* group, uint32_t* ranks,
                                                  size_t capacity, size_t* count,
                                                  hbmwire_error* error);

/// Gives each rank's bytes to all ranks: 0 to 1 MiB of each, 256 MiB of all. Errors:
/// HBMWIRE_PEER_FAILED: ranks that have ended are the subject, until hbmwire_group_rejoin();
/// HBMWIRE_TIMED_OUT: the ranks that did not come are the subject, and the call must not be
/// repeated before hbmwire_group_rejoin(); HBMWIRE_CANCELLED, likewise; HBMWIRE_INVALID_ARGUMENT:
/// too many bytes.
HBMWIRE_C_API hbmwire_status hbmwire_group_exchange(hbmwire_group* group, const void* mine,
                                                    size_t size, int64_t timeout_ns,
                                                    int32_t cancel_fd, hbmwire_exchanged** all,
                                                    hbmwire_error* error);

/// hbmwire_group_exchange() among the ranks that are there: a rank that has ended gives nothing,
/// and one that has not come at rank 0's deadline is given up, as if it had ended. Errors:
/// HBMWIRE_PEER_FAILED: rank 0 has ended, or this rank was given up; HBMWIRE_TIMED_OUT: rank 0 does
/// not answer.
HBMWIRE_C_API hbmwire_status hbmwire_group_exchange_among_present(
    hbmwire_group* group, const void* mine, size_t size, int64_t timeout_ns, int32_t cancel_fd,
    hbmwire_exchanged** all, hbmwire_error* error);

/// How many ranks an exchange was among: the group's size; 0 for NULL.
HBMWIRE_C_API size_t hbmwire_exchanged_count(const hbmwire_exchanged* all);

/// The bytes that a rank gave, and their number; `size` may be NULL. They belong to `all`. NULL:
/// the rank gave nothing, since it has ended, or there is no such rank. If a rank gave 0 bytes, the
/// pointer is not NULL.
HBMWIRE_C_API const void* hbmwire_exchanged_bytes(const hbmwire_exchanged* all, uint32_t rank,
                                                  size_t* size);

/// Frees the bytes.
HBMWIRE_C_API void hbmwire_exchanged_free(hbmwire_exchanged* all);

/// hbmwire_group_exchange() of nothing.
HBMWIRE_C_API hbmwire_status hbmwire_group_barrier(hbmwire_group* group, int64_t timeout_ns,
                                                   int32_t cancel_fd, hbmwire_error* error);

/// The endpoint to another rank, which is made when either of both first asks, and is the same
/// connection for both. The other rank need only make progress, and call nothing. The handle is the
/// group's, and is the same each time: freeing it does nothing, and it is valid until
/// hbmwire_group_drop_endpoint(), hbmwire_group_rejoin() or hbmwire_group_free(). Errors: as
/// hbmwire_endpoint_connect(), with the rank as subject; HBMWIRE_INVALID_ARGUMENT: there is no such
/// rank, or it is this one.
HBMWIRE_C_API hbmwire_status hbmwire_group_endpoint(hbmwire_group* group, uint32_t rank,
                                                    int64_t timeout_ns, int32_t cancel_fd,
                                                    hbmwire_endpoint** endpoint,
                                                    hbmwire_error* error);

/// Ends the endpoint to a rank and its handle, if there is one; the next hbmwire_group_endpoint()
/// makes another.
HBMWIRE_C_API void hbmwire_group_drop_endpoint(hbmwire_group* group, uint32_t rank);

/// How hbmwire_group_broadcast() moves and checks the bytes.
typedef struct hbmwire_broadcast_options {
  size_t struct_size;    ///< set by hbmwire_broadcast_options_init()
  uint64_t piece_bytes;  ///< bytes that a rank hands on at a time: 4 MiB; 4 KiB to 1 GiB
  int32_t verify;        ///< 1: each rank compares a digest of its memory with the root's; 0: none
  int32_t reserved;      ///< 0
} hbmwire_broadcast_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_broadcast_options_init(hbmwire_broadcast_options* options,
                                                  size_t struct_size);

/// Brings the bytes of rank `root` to all ranks: each passes them to the next one piece by piece.
/// `memory` has the same length at all ranks, and is registered for HBMWIRE_ACCESS_REMOTE_WRITE,
/// except at the root. It must stay registered until the call is over. Errors: as
/// hbmwire_group_exchange(); a rank that failed, or whose bytes differ (HBMWIRE_DATA_MISMATCH), is
/// the subject, at every rank.
HBMWIRE_C_API hbmwire_status hbmwire_group_broadcast(hbmwire_group* group,
                                                     const hbmwire_slice* memory, uint32_t root,
                                                     int64_t timeout_ns, int32_t cancel_fd,
                                                     const hbmwire_broadcast_options* options,
                                                     hbmwire_error* error);

/// Meets again, under a new epoch: those that are left, and processes that replace the others,
/// which call hbmwire_group_create(). All endpoints of the group end, and their handles. Errors: as
/// hbmwire_group_create(); then all is as before, and it may be called again.
HBMWIRE_C_API hbmwire_status hbmwire_group_rejoin(hbmwire_group* group, int64_t timeout_ns,
                                                  int32_t cancel_fd, hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
