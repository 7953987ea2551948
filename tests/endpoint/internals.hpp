// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/worker.hpp"

/// State of workers and endpoints that tests read or change, and that the public API does not
/// expose. Only internals.cpp includes the library's internal headers for it.
namespace hbmwire::test::internals {

/// The number of pieces of host memory of this size that a worker has for staging (docs/paths.md).
inline constexpr std::size_t kPieces = 16;
inline constexpr std::uint64_t kPieceBytes = 512U << 10U;

/// State of a worker.
struct WorkerView {
  std::size_t endpoints;       ///< existing ones, with or without a handle
  std::size_t free_transfers;  ///< available for reuse
  std::size_t staged;          ///< copies that engines have not finished
  std::size_t handshakes;      ///< in progress
  std::size_t waiting_peers;   ///< at the first listener, not accepted yet
  bool has_pieces;             ///< true after the first NIC has staged something
  std::size_t free_pieces;     ///< of the first NIC; all of them if it has none yet
};

[[nodiscard]] WorkerView look_at(const Worker& worker);

/// State of an endpoint.
struct EndpointView {
  std::uint32_t posted;       ///< total requests to the peer
  std::uint32_t outstanding;  ///< those that have not ended
  std::uint32_t room;         ///< free places for more requests
  std::uint32_t moving;       ///< transfers that movers have in flight
  bool nothing_waits;         ///< nothing waits for room or for an earlier transfer
  bool lanes_cut;
  bool peer_left;              ///< the peer has sent its goodbye
  bool peer_is_quiet;          ///< the peer has reported that its side is idle
  bool copies;                 ///< engines of this process may copy
  bool serves_copy;            ///< copies by IPC for the peer
  std::uint32_t copies_asked;  ///< total copies requested from the peer by IPC
  std::size_t queue_pairs;     ///< that the endpoint has
};

/// Makes and keeps the files in which other processes of the node find this process' memory.
/// Otherwise the first endpoint whose policy allows shared memory would make them.
void make_shared_files();

/// Only WorkerView::endpoints, which does not look at all transfers.
[[nodiscard]] std::size_t count_endpoints(const Worker& worker);

/// Whether the state of the endpoint with this Endpoint::id() still exists.
[[nodiscard]] bool keeps_endpoint(const Worker& worker, std::uint64_t id);

/// The worker's `nth` endpoint, in the order of creation.
[[nodiscard]] EndpointView look_at_endpoint(const Worker& worker, std::size_t nth = 0);

/// The attributes of a queue pair, as its NIC reports them (ibv_query_qp(3)).
struct QueuePairView {
  unsigned service_level;
  unsigned traffic_class;
  unsigned gid_index;
  unsigned pkey_index;
  unsigned mtu_bytes;
  unsigned ack_timeout;
  unsigned retry_count;
  unsigned rnr_retry;
};

/// The queue pairs of the worker's `nth` endpoint over a NIC: the data lane, the control lane, and
/// the rails.
[[nodiscard]] std::vector<QueuePairView> look_at_queue_pairs(const Worker& worker,
                                                             std::size_t nth = 0);

/// Receives for messages that a worker's endpoints share on its first NIC.
struct PoolView {
  std::uint32_t count;     ///< receives that may be promised to endpoints, and some more
  std::uint32_t promised;  ///< promised to existing endpoints
  std::uint32_t posted;
  std::uint32_t waiting;  ///< waiting to be posted
  std::uint32_t budget;   ///< places that endpoints took beyond those promised to them
};

/// All zero if no endpoints share receives.
[[nodiscard]] PoolView look_at_receives(const Worker& worker);

/// Messages that the peer of the worker's `nth` endpoint may send before this end makes progress.
[[nodiscard]] std::uint32_t places(const Worker& worker, std::size_t nth = 0);

/// Begins Transfer::cancel() for the worker's `nth` transfer, without waiting for its end.
void cancel(const Worker& worker, std::size_t nth, const Error& why);

/// Gives the worker's next endpoint a completion queue of `places`, which is too small, so that it
/// overruns as by a bug of the provider.
void shorten_next_queue(const Worker& worker, int places);

// The functions below change the worker's first endpoint.

/// Keeps both ends from mapping the other's pieces, as on two nodes.
void keep_pieces_apart(const Worker& worker);

/// Makes longer puts, gets and messages go in pieces.
void limit_messages(const Worker& worker, std::uint32_t bytes);

/// Acts as if so many requests had been posted.
void skip_requests(const Worker& worker, std::uint32_t count);

/// Makes IPC be tried again after a refusal.
void forget_refused_copy(const Worker& worker);

/// Acts as if the endpoint was made by invitation: no handshake's connection reports the peer's
/// end.
void forget_socket(const Worker& worker);

/// Probes the peer now.
void probe(const Worker& worker);

/// The places in the endpoint's state that a put reads, as bytes of a cache line of 64, and their
/// number.
struct PutView {
  std::size_t begin;
  std::size_t bytes;
};

[[nodiscard]] PutView look_at_put(const Worker& worker);

/// Sends these bytes on the control lane.
void say(const Worker& worker, std::vector<std::byte> message);

/// The offer that the endpoint would make now.
[[nodiscard]] std::vector<std::byte> offer(const Worker& worker);

/// Tells the peer that a rail is down.
void say_rail_down(const Worker& worker, std::uint8_t rail);

/// The peer's memory as described by its key. set() forges one.
struct RemoteView {
  std::uint64_t address;
  std::uint64_t length_bytes;
  std::uint64_t token;
  std::uint32_t remote_key;
  std::uint32_t connection;  ///< the connection that it belongs to
  Access access;
  bool by_engine;  ///< an engine may copy it
};

[[nodiscard]] RemoteView look_at(const RemoteRegion& region);
void set(RemoteRegion& region, const RemoteView& view);

}  // namespace hbmwire::test::internals
