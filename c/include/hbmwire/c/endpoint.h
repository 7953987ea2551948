// SPDX-License-Identifier: MIT
// Connections to peers: put, get, send, receive, atomics.
#ifndef HBMWIRE_C_ENDPOINT_H
#define HBMWIRE_C_ENDPOINT_H

#include "hbmwire/c/error.h"
#include "hbmwire/c/memory_key.h"
#include "hbmwire/c/nic.h"
#include "hbmwire/c/region.h"
#include "hbmwire/c/transfer.h"
#include "hbmwire/c/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A connection to a peer. Its functions do not block, unless they take a timeout. They fail at
/// once if an operation cannot be started: HBMWIRE_INVALID_ARGUMENT (the slice leaves its region,
/// or the region is not registered with this endpoint's NIC or does not allow the operation),
/// HBMWIRE_PERMISSION_DENIED (the policy excludes its path), HBMWIRE_EXHAUSTED
/// (hbmwire_worker_options::max_transfers), HBMWIRE_PEER_FAILED or HBMWIRE_CANCELLED (the endpoint
/// is no longer ready). Threads: its worker's.
///
/// On one endpoint puts, sends and immediates arrive in the order in which they were started. A
/// later put may overtake the bytes of a get or an atomic, unless hbmwire_endpoint_fence() is
/// called between them.
typedef struct hbmwire_endpoint hbmwire_endpoint;

/// Memory of the peer. It belongs to one connection, and ends with it.
typedef struct hbmwire_remote_region hbmwire_remote_region;

/// Several parts, prepared once, that can be put or got many times, one run at a time. Its regions
/// must outlive it.
typedef struct hbmwire_prepared hbmwire_prepared;

/// How a program gets the messages of an endpoint.
typedef int32_t hbmwire_messages;

enum {
  HBMWIRE_MESSAGES_MATCHED = 0,     ///< by hbmwire_endpoint_receive()
  HBMWIRE_MESSAGES_HANDED_OUT = 1,  ///< by hbmwire_worker_next_message()
};

/// The phase of an endpoint. The phase moves down this list (docs/endpoint-states.md).
typedef int32_t hbmwire_phase;

enum {
  HBMWIRE_PHASE_READY = 0,   ///< connected
  HBMWIRE_PHASE_ENDING = 1,  ///< something failed; waits until both sides are closed
  HBMWIRE_PHASE_FAILED = 2,  ///< every failure is reported; hbmwire_endpoint_reconnect() may help
  HBMWIRE_PHASE_CLOSED = 3,  ///< hbmwire_endpoint_close() was called here, or the peer ended its
                             ///< side
};

/// "ready" and so on; empty for a number that is no phase.
HBMWIRE_C_API const char* hbmwire_phase_name(hbmwire_phase phase);

/// How an endpoint is connected, and how much it holds at a time. Arrays are copied. An option of
/// the link that is HBMWIRE_UNSET takes the value of the setting (HBMWIRE_LINK_*), or else the
/// library's choice.
typedef struct hbmwire_endpoint_options {
  size_t struct_size;               ///< set by hbmwire_endpoint_options_init()
  const void* pre_shared_key;       ///< both ends prove that they know it; NULL: none
  size_t pre_shared_key_bytes;      ///< how long it is
  const void* hello;                ///< bytes of the application for the peer; NULL: none
  size_t hello_bytes;               ///< at most 1,024
  const hbmwire_path* allow_paths;  ///< the only paths of memory; none: all that the context allows
  size_t allow_path_count;          ///< how many there are
  int64_t peer_timeout_ns;          ///< until a peer that has gone is noticed: 2 s
  int64_t operation_timeout_ns;     ///< an operation under way for longer fails: 30 s
  uint32_t send_depth;              ///< requests in flight: 128
  uint32_t receive_depth;           ///< messages that may wait here: 64
  uint32_t eager_bytes;             ///< longest message that is sent at once: 8192
  uint32_t unexpected_bytes;        ///< bytes for messages that come before their receives: 262144
  hbmwire_messages messages;        ///< how this end gets messages: HBMWIRE_MESSAGES_MATCHED
  hbmwire_path require_path;        ///< the only path of device memory; HBMWIRE_UNSET: any
  int32_t retry_connect;            ///< 1: tries to connect again until the deadline
  int32_t service_level;            ///< of the link: 0 to 15
  int32_t traffic_class;            ///< of the link: 0 to 255, the DSCP in its upper six bits
  int32_t pkey_index;               ///< of the link, in the ports' partition key tables
  int32_t mtu_bytes;                ///< of the link: 256, 512, 1024, 2048 or 4096
  int32_t ack_timeout;              ///< of the link: 0 to 31, 4.096 us * 2^ack_timeout
  int32_t retry_count;              ///< of the link: 0 to 7
  int32_t rnr_retry;                ///< of the link: 0 to 7
} hbmwire_endpoint_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_endpoint_options_init(hbmwire_endpoint_options* options,
                                                 size_t struct_size);

/// Connects to a listener at "host:port", "[::1]:7000" or "rdma_cm://host:port". Drives the worker
/// meanwhile. Errors: HBMWIRE_STAGE_CONNECT: HBMWIRE_TIMED_OUT, HBMWIRE_CANCELLED,
/// HBMWIRE_PERMISSION_DENIED (the pre-shared keys differ), HBMWIRE_PROTOCOL, HBMWIRE_PEER_FAILED;
/// HBMWIRE_STAGE_CONFIGURE: options that contradict themselves.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_connect(hbmwire_worker* worker, const char* peer,
                                                      int64_t timeout_ns, int32_t cancel_fd,
                                                      const hbmwire_endpoint_options* options,
                                                      hbmwire_endpoint** endpoint,
                                                      hbmwire_error* error);

/// Closes it without waiting for the peer, and ends it.
HBMWIRE_C_API void hbmwire_endpoint_free(hbmwire_endpoint* endpoint);

/// Facts about an endpoint. Its strings and bytes belong to the endpoint, until
/// hbmwire_endpoint_reconnect().
typedef struct hbmwire_endpoint_info {
  size_t struct_size;           ///< set by hbmwire_endpoint_info_init()
  uint64_t id;                  ///< no other endpoint of this process has the same
  const char* peer;             ///< the address that this end connected to or accepted:
                                ///< "node2:7000"
  const void* hello;            ///< the peer's hbmwire_endpoint_options::hello
  size_t hello_bytes;           ///< how long it is
  hbmwire_phase phase;          ///< its phase now
  hbmwire_placement placement;  ///< where the peer is
} hbmwire_endpoint_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_endpoint_info_init(hbmwire_endpoint_info* info, size_t struct_size);

/// Gives the facts about an endpoint.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_get_info(const hbmwire_endpoint* endpoint,
                                                       hbmwire_endpoint_info* info,
                                                       hbmwire_error* error);

/// Only the phase, for loops that ask often; -1 for NULL.
HBMWIRE_C_API hbmwire_phase hbmwire_endpoint_phase(const hbmwire_endpoint* endpoint);

/// The NIC that it communicates by; its strings belong to the endpoint.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_nic(const hbmwire_endpoint* endpoint,
                                                  hbmwire_nic_info* nic, hbmwire_error* error);

/// Why the endpoint is ending or failed; HBMWIRE_OK while it is ready, or if it was closed. `why`
/// has the same in full, and may be NULL. HBMWIRE_INVALID_ARGUMENT for NULL.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_failure(const hbmwire_endpoint* endpoint,
                                                      hbmwire_error* why);

/// Memory that the peer's listener advertises by this name. Asks the peer, which must make progress
/// to answer. Errors: HBMWIRE_NOT_FOUND; HBMWIRE_TIMED_OUT, HBMWIRE_CANCELLED.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_remote(hbmwire_endpoint* endpoint, const char* name,
                                                     int64_t timeout_ns, int32_t cancel_fd,
                                                     hbmwire_remote_region** remote,
                                                     hbmwire_error* error);

/// Memory that the peer gave a key to. Errors: HBMWIRE_PEER_FAILED (the peer was started anew),
/// HBMWIRE_PERMISSION_DENIED (the key has expired, or the policy excludes the path),
/// HBMWIRE_NOT_FOUND (the key does not name the peer's NIC).
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_remote_by_key(const hbmwire_endpoint* endpoint,
                                                            const hbmwire_remote_key* key,
                                                            hbmwire_remote_region** remote,
                                                            hbmwire_error* error);

/// The same for the bytes of a key, as they came. Errors besides: HBMWIRE_PROTOCOL.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_remote_by_bytes(const hbmwire_endpoint* endpoint,
                                                              const void* bytes, size_t size,
                                                              hbmwire_remote_region** remote,
                                                              hbmwire_error* error);

/// Facts about the peer's memory.
typedef struct hbmwire_remote_region_info {
  size_t struct_size;        ///< set by hbmwire_remote_region_info_init()
  uint64_t length_bytes;     ///< the length of the memory
  hbmwire_access access;     ///< the access that the peer allows
  hbmwire_memory_type type;  ///< the type of the memory at the peer
  hbmwire_path path;         ///< by which the peer's NIC reaches it
  int32_t reserved;          ///< 0
} hbmwire_remote_region_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_remote_region_info_init(hbmwire_remote_region_info* info,
                                                   size_t struct_size);

/// Gives the facts about the peer's memory.
HBMWIRE_C_API hbmwire_status hbmwire_remote_region_get_info(const hbmwire_remote_region* remote,
                                                            hbmwire_remote_region_info* info,
                                                            hbmwire_error* error);

/// Frees the handle. Operations that use the memory go on.
HBMWIRE_C_API void hbmwire_remote_region_free(hbmwire_remote_region* remote);

/// A part of the peer's memory. This structure has no struct_size: its members will not change.
typedef struct hbmwire_remote_slice {
  const hbmwire_remote_region* region;  ///< the memory that it is a part of
  uint64_t offset_bytes;                ///< from its first byte on
  uint64_t length_bytes;                ///< may be 0
} hbmwire_remote_slice;

/// When a put is over, and a number that comes with it.
typedef struct hbmwire_put_options {
  size_t struct_size;     ///< set by hbmwire_put_options_init()
  hbmwire_level level;    ///< how far the bytes must be: HBMWIRE_LEVEL_ARRIVED
  int32_t has_immediate;  ///< 1: `immediate` goes to hbmwire_endpoint_receive_immediate() of the
                          ///< peer, after the bytes
  uint32_t immediate;     ///< the number that comes with the put
  uint32_t reserved;      ///< 0
} hbmwire_put_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_put_options_init(hbmwire_put_options* options, size_t struct_size);

/// Writes `from` into the peer's memory; both have the same length.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_put(
    hbmwire_endpoint* endpoint, const hbmwire_slice* from, const hbmwire_remote_slice* to,
    const hbmwire_put_options* options, hbmwire_transfer** transfer, hbmwire_error* error);

/// Reads the peer's memory. Errors besides: HBMWIRE_PERMISSION_DENIED, the region here is not
/// registered for local writing.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_get(hbmwire_endpoint* endpoint,
                                                  const hbmwire_slice* into,
                                                  const hbmwire_remote_slice* from,
                                                  hbmwire_transfer** transfer,
                                                  hbmwire_error* error);

/// One of several parts of a transfer. Both slices have the same length. This structure has no
/// struct_size: its members will not change.
typedef struct hbmwire_part {
  hbmwire_slice local;          ///< this side's memory
  hbmwire_remote_slice remote;  ///< the peer's memory
} hbmwire_part;

/// Prepares all of `count` parts, as one transfer that can be repeated. Errors besides:
/// HBMWIRE_NOT_SUPPORTED, memory of either end is staged.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_prepare_put(hbmwire_endpoint* endpoint,
                                                          const hbmwire_part* parts, size_t count,
                                                          const hbmwire_put_options* options,
                                                          hbmwire_prepared** prepared,
                                                          hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_prepare_get(hbmwire_endpoint* endpoint,
                                                          const hbmwire_part* parts, size_t count,
                                                          hbmwire_prepared** prepared,
                                                          hbmwire_error* error);

/// Starts a run: all parts, as one transfer. Errors: HBMWIRE_BUSY while a run is under way;
/// otherwise as hbmwire_endpoint_put().
HBMWIRE_C_API hbmwire_status hbmwire_prepared_post(hbmwire_prepared* prepared,
                                                   hbmwire_transfer** transfer,
                                                   hbmwire_error* error);

/// Ends it. A run that is under way goes on.
HBMWIRE_C_API void hbmwire_prepared_free(hbmwire_prepared* prepared);

/// Changes 64 bits of the peer's memory, at an address that is a multiple of 8.
/// hbmwire_endpoint_fetch_add() adds to them; hbmwire_endpoint_compare_swap() writes `desired` if
/// they are `expected`. hbmwire_transfer_value() is the value before. Errors besides:
/// HBMWIRE_NOT_SUPPORTED, no atomics.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_fetch_add(hbmwire_endpoint* endpoint,
                                                        const hbmwire_remote_slice* at,
                                                        uint64_t add, hbmwire_transfer** transfer,
                                                        hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_compare_swap(hbmwire_endpoint* endpoint,
                                                           const hbmwire_remote_slice* at,
                                                           uint64_t expected, uint64_t desired,
                                                           hbmwire_transfer** transfer,
                                                           hbmwire_error* error);

/// Sends a message. It is over at `level`: HBMWIRE_LEVEL_SENT, when the memory may be written
/// again; HBMWIRE_LEVEL_ARRIVED, when a receive of the peer has taken it. A tagged message goes to
/// the first posted receive whose tag fits, a plain one to the first plain receive. Errors besides:
/// HBMWIRE_INVALID_ARGUMENT, the message is longer than its receive, if the send was not over
/// before.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_send(hbmwire_endpoint* endpoint,
                                                   const hbmwire_slice* from, hbmwire_level level,
                                                   hbmwire_transfer** transfer,
                                                   hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_send_tagged(hbmwire_endpoint* endpoint,
                                                          const hbmwire_slice* from, uint64_t tag,
                                                          hbmwire_level level,
                                                          hbmwire_transfer** transfer,
                                                          hbmwire_error* error);

/// Receives a message; the memory must be registered for local writing. A tagged receive matches if
/// the tags are equal in the bits of `mask`; a mask of 0 takes any tag. Errors besides:
/// HBMWIRE_INVALID_ARGUMENT, the endpoint hands its messages out, or the message is too long.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_receive(hbmwire_endpoint* endpoint,
                                                      const hbmwire_slice* into,
                                                      hbmwire_transfer** transfer,
                                                      hbmwire_error* error);
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_receive_tagged(hbmwire_endpoint* endpoint,
                                                             const hbmwire_slice* into,
                                                             uint64_t tag, uint64_t mask,
                                                             hbmwire_transfer** transfer,
                                                             hbmwire_error* error);

/// The next immediate of a put: hbmwire_transfer_value(). If `written` is device memory, the bytes
/// that were put there are visible to the device when this is over; NULL: none.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_receive_immediate(hbmwire_endpoint* endpoint,
                                                                const hbmwire_slice* written,
                                                                hbmwire_transfer** transfer,
                                                                hbmwire_error* error);

/// Its transfer is over when all puts, prepared transfers, and messages sent at once that were
/// started before it have arrived at the peer.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_flush(hbmwire_endpoint* endpoint,
                                                    hbmwire_transfer** transfer,
                                                    hbmwire_error* error);

/// Operations that are started after it begin only when gets and atomics started before it are
/// over.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_fence(hbmwire_endpoint* endpoint,
                                                    hbmwire_error* error);

/// Waits for operations under way, says goodbye, and waits for the peer's goodbye, which needs the
/// peer's progress. The endpoint is closed in every case, and must still be freed. Errors:
/// HBMWIRE_TIMED_OUT, HBMWIRE_CANCELLED; HBMWIRE_PEER_FAILED, no goodbye came; why the endpoint
/// failed meanwhile.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_close(hbmwire_endpoint* endpoint, int64_t timeout_ns,
                                                    int32_t cancel_fd, hbmwire_error* error);

/// hbmwire_endpoint_close() without waiting: the transfer is over when the endpoint is closed.
/// Errors: HBMWIRE_BUSY, an earlier hbmwire_endpoint_start_close() is not over.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_start_close(hbmwire_endpoint* endpoint,
                                                          int64_t timeout_ns,
                                                          hbmwire_transfer** transfer,
                                                          hbmwire_error* error);

/// Waits until the peer has said goodbye, and drives the worker meanwhile: for a side that only
/// answers. At the deadline the endpoint goes on as before. Errors: HBMWIRE_TIMED_OUT,
/// HBMWIRE_CANCELLED; why the endpoint failed.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_wait_closed(hbmwire_endpoint* endpoint,
                                                          int64_t timeout_ns, int32_t cancel_fd,
                                                          hbmwire_error* error);

/// Connects to the same peer again, by another connection, perhaps to another process. Remote
/// regions of the old connection are refused. Errors: HBMWIRE_NOT_SUPPORTED, this side was
/// accepted; HBMWIRE_BUSY, it is neither failed nor closed; those of hbmwire_endpoint_connect(),
/// after which the endpoint is as before.
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_reconnect(hbmwire_endpoint* endpoint,
                                                        int64_t timeout_ns, int32_t cancel_fd,
                                                        hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
