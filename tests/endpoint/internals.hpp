// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/worker.hpp"

/// State of workers and endpoints that tests read or change and that the public API does not give.
/// Only internals.cpp includes the library's own headers for it.
namespace hbmwire::test::internals {

/// A worker has so many pieces of host memory of this size for what is staged (docs/paths.md).
inline constexpr std::size_t kPieces = 16;
inline constexpr std::uint64_t kPieceBytes = 512U << 10U;

/// State of a worker.
struct WorkerView {
  std::size_t endpoints;       ///< with or without a handle
  std::size_t free_transfers;  ///< not in use
  std::size_t staged;          ///< copies that engines have not ended
  std::size_t handshakes;      ///< that go on
  std::size_t waiting_peers;   ///< of the first listener, not accepted yet
  bool has_pieces;             ///< something was staged by the first NIC
  std::size_t free_pieces;     ///< of that NIC; all of them where it has none yet
};

[[nodiscard]] WorkerView look_at(const Worker& worker);

/// State of an endpoint.
struct EndpointView {
  std::uint32_t posted;       ///< requests to the peer, ever
  std::uint32_t outstanding;  ///< of these, not over
  std::uint32_t room;         ///< for further ones
  std::uint32_t moving;       ///< what movers have under way
  bool nothing_waits;         ///< for room, or for what is before it
  bool lanes_cut;
  bool peer_left;              ///< said goodbye
  bool peer_is_quiet;          ///< has said that nothing of its side goes on
  bool copies;                 ///< engines of this process may
  bool serves_copy;            ///< by IPC, for the peer
  std::uint32_t copies_asked;  ///< of the peer, by IPC, ever
  std::size_t queue_pairs;     ///< that it has
};

/// This process has the files in which others of its node find its memory, and keeps them: its
/// first endpoint whose policy admits shared memory would make them.
void make_shared_files();

/// WorkerView::endpoints alone, which costs no look at all transfers.
[[nodiscard]] std::size_t count_endpoints(const Worker& worker);

/// Whether the state of the endpoint with this Endpoint::id() is still there.
[[nodiscard]] bool keeps_endpoint(const Worker& worker, std::uint64_t id);

/// The worker's `nth` endpoint, as they were made.
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

/// The queue pairs of the worker's `nth` endpoint, which a NIC carries: the data lane, the control
/// lane, and the rails.
[[nodiscard]] std::vector<QueuePairView> look_at_queue_pairs(const Worker& worker,
                                                             std::size_t nth = 0);

/// Receives for messages that a worker's endpoints share on its first NIC.
struct PoolView {
  std::uint32_t count;     ///< that may be promised to endpoints, and some for none
  std::uint32_t promised;  ///< to endpoints that there are
  std::uint32_t posted;
  std::uint32_t waiting;  ///< to be posted
  std::uint32_t budget;   ///< places that endpoints took beyond those that they are sure of
};

/// All zero: none shares any.
[[nodiscard]] PoolView look_at_receives(const Worker& worker);

/// Messages that the peer of the worker's `nth` endpoint may send before this end looks.
[[nodiscard]] std::uint32_t places(const Worker& worker, std::size_t nth = 0);

/// As Transfer::cancel() of the worker's `nth` transfer begins, without waiting for its end.
void cancel(const Worker& worker, std::size_t nth, const Error& why);

/// The worker's next endpoint gets a completion queue of `places`, too few for what it is promised:
/// it overruns, as by a bug of the provider's.
void shorten_next_queue(const Worker& worker, int places);

// These change the worker's first endpoint.

/// Both ends map no pieces of the other's, as on two nodes.
void keep_pieces_apart(const Worker& worker);

/// Puts, gets and messages that are longer go in pieces.
void limit_messages(const Worker& worker, std::uint32_t bytes);

/// As if it had posted so many requests.
void skip_requests(const Worker& worker, std::uint32_t count);

/// IPC is tried again after a refusal.
void forget_refused_copy(const Worker& worker);

/// As of one that was invited: no connection of a handshake tells of the peer's end.
void forget_socket(const Worker& worker);

/// Probes the peer now.
void probe(const Worker& worker);

/// Where in the endpoint's state a put looks, as bytes of a cache line of 64, and how many bytes.
struct PutView {
  std::size_t begin;
  std::size_t bytes;
};

[[nodiscard]] PutView look_at_put(const Worker& worker);

/// Says such bytes by the control lane.
void say(const Worker& worker, std::vector<std::byte> message);

/// The offer that the endpoint would make now.
[[nodiscard]] std::vector<std::byte> offer(const Worker& worker);

/// Tells the peer that a rail is down.
void say_rail_down(const Worker& worker, std::uint8_t rail);

/// The peer's memory as its key tells of it; set() makes one up, as a liar would.
struct RemoteView {
  std::uint64_t address;
  std::uint64_t length_bytes;
  std::uint64_t token;
  std::uint32_t remote_key;
  std::uint32_t connection;  ///< which it belongs to
  Access access;
  bool by_engine;  ///< an engine may copy it
};

[[nodiscard]] RemoteView look_at(const RemoteRegion& region);
void set(RemoteRegion& region, const RemoteView& view);

}  // namespace hbmwire::test::internals
