// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/link.hpp"
#include "hbmwire/path.hpp"
#include "hbmwire/region.hpp"
#include "hbmwire/transfer.hpp"
#include "hbmwire/worker.hpp"

/// Endpoints: put, get, send and receive between any memories (docs/endpoint.md).
namespace hbmwire {

class BlockTable;
class Nic;
class PendingEndpoint;
class PendingRegion;
class RemoteBlockTable;
class RemoteKey;
struct BlockNumbers;
struct Counters;
struct MemoryKeyOptions;

namespace detail {
struct EndpointState;
struct Internals;
struct InvitationState;
struct ListenerState;
struct RequestState;
}  // namespace detail

/// How a program gets the messages of an endpoint.
enum class MessageMode : std::uint8_t {
  matched,     ///< by Endpoint::receive(), in the order in which tags match
  handed_out,  ///< by Worker::next_message(), each with its sender, tag and length
};

/// How an endpoint is connected, and how much it holds at a time. Each end has its own.
struct EndpointOptions {
  /// Requests in flight; more are queued, and go as there is room.
  std::uint32_t send_depth = 128;

  /// Messages and immediates that may wait here until this end makes progress. When all places are
  /// taken, further ones wait at the sender. Where endpoints share receives, four are certain, and
  /// as many more as there are (WorkerOptions::receive_pool_bytes). 4 to 16,384.
  std::uint32_t receive_depth = 64;

  /// Messages up to this size are sent at once and copied at the receiver; larger ones, and those
  /// of device memory, go by rendezvous. The smaller one of both ends' counts. A message that comes
  /// at once for device memory is carried there by the NIC (Path::staged), and that is warned
  /// about; an end whose policy has device memory go by the NIC and excludes staging has 0 here. At
  /// most WorkerOptions::eager_bytes.
  std::uint32_t eager_bytes = 8192;

  /// For messages that come before their receives: when half of the places are taken by them,
  /// further ones are copied elsewhere, as long as they are no more than this and the worker has
  /// room (WorkerOptions::unexpected_bytes), so that more may come.
  std::uint32_t unexpected_bytes = 256 * 1024;

  /// For messages that come to this end; the peer's end is its own matter.
  MessageMode messages = MessageMode::matched;

  /// How long it may take to notice that the peer is gone or cut off, and from then on how long a
  /// cancelled or failed transfer waits for the peer's word that its side is closed. A peer that is
  /// stopped or busy is not gone. At least 10 ms; nanoseconds::max(): for ever.
  std::chrono::nanoseconds peer_timeout = std::chrono::seconds(2);

  /// An operation that is under way for longer fails (Errc::timed_out), and the endpoint with it.
  /// Counted from when it is handed to the NIC, and before that from when it began to wait for room
  /// (send_depth). A message that is over no earlier than a receive has taken it (by rendezvous, or
  /// at CompletionLevel::arrived) is under way until then; a receive that nothing has matched is
  /// not. Noticed up to a quarter of it later. At least 10 ms; nanoseconds::max(): for ever.
  std::chrono::nanoseconds operation_timeout = std::chrono::seconds(30);

  /// Shared by both ends, which prove to each other that they know it; empty: whoever reaches the
  /// port may connect, and that is logged once.
  std::vector<std::byte> pre_shared_key = {};

  /// Restricts ContextOptions::paths further. A region of this end that does not keep to it is
  /// refused when it is used (put() and so on: Errc::permission_denied, with the reason), the
  /// peer's when it is asked for (remote()).
  PathPolicy paths = {};

  /// connect() tries again until its deadline where the peer refuses for a reason that may pass: no
  /// program listens there, it is not reachable, it is out of resources, or it closed the
  /// connection or found this end too slow. Between attempts it pauses, by exponential backoff with
  /// full jitter: up to 20 ms, and up to twice as long each time, 1 s at most. The error at the
  /// deadline is the last refusal's. reconnect() does the same, and pauses before its first
  /// attempt, too, for up to 1 s (a quarter of the time that is left, where that is less), so that
  /// the many peers of a process that restarts do not come back at the same moment. Only the end
  /// that connects uses it.
  bool retry_connect = false;

  /// The application's own, for the peer: it travels in the handshake, and the peer reads it by
  /// Endpoint::peer_hello(). A name, a rank, a version, an incarnation: at most 1,024 bytes. The
  /// library does not look into it. A pre-shared key proves it as everything else in the handshake;
  /// it is not encrypted. A listener says it only to a peer that has proven the key.
  std::vector<std::byte> hello = {};

  /// Quality of service and addressing. An option that is left open is the setting's
  /// (HBMWIRE_LINK_*), else the library's choice. A pkey index and an MTU count on each NIC that
  /// the endpoint has; one that lacks it is an error (Stage::connect, Hint::link_options).
  LinkOptions link = {};
};

class RemoteRegion;

/// A part of the peer's memory; checked when it is used.
struct RemoteSlice {
  const RemoteRegion* region = nullptr;  ///< the region that it is a part of
  std::uint64_t offset_bytes = 0;        ///< from the region's first byte on
  std::uint64_t length_bytes = 0;        ///< may be 0
};

/// Memory of the peer at the other end of one endpoint, as Endpoint::remote() gives it. A value. It
/// ends with the connection: after Endpoint::reconnect() it must be made anew.
class HBMWIRE_API RemoteRegion {
 public:
  /// No memory: every use of it is refused.
  RemoteRegion() noexcept = default;

  /// The length of the memory.
  [[nodiscard]] std::uint64_t length_bytes() const noexcept;

  /// The access that the peer allows.
  [[nodiscard]] Access access() const noexcept;

  /// The type of the memory at the peer.
  [[nodiscard]] MemoryType type() const noexcept;

  /// The path by which the peer's NIC reaches it. Path::staged: only the peer's process does.
  [[nodiscard]] Path path() const noexcept;

  /// `length` bytes from `offset_bytes` on; whether they are within it is checked when the slice is
  /// used. It points to this object.
  [[nodiscard]] RemoteSlice slice(std::uint64_t offset_bytes, std::uint64_t length) const noexcept {
    return {this, offset_bytes, length};
  }

  /// All of it.
  [[nodiscard]] RemoteSlice slice() const noexcept { return {this, 0, length_bytes()}; }

  /// All of it as blocks of `block_bytes` each (blocks.hpp). Errors: as RemoteBlockTable::create().
  [[nodiscard]] Result<RemoteBlockTable> blocks(std::uint64_t block_bytes) const;

 private:
  friend struct detail::Internals;

  // The library's own. All that each transfer looks at lies in one line of the cache.
  alignas(32) std::array<std::byte, 64> state_{};
};

/// When a put is over, and a number that comes with it.
struct PutOptions {
  CompletionLevel level = CompletionLevel::arrived;  ///< how far the bytes must be
  /// Handed to the peer's receive_immediate() after the bytes have arrived there.
  std::optional<std::uint32_t> immediate = {};
};

/// When a message is over for its sender.
struct SendOptions {
  /// `sent`: over when the memory may be written again. `arrived`: when a receive of the peer's has
  /// taken it. `visible`: the same, since a receive is over only when its device sees the bytes. A
  /// message that goes by rendezvous is over no earlier than `arrived`.
  CompletionLevel level = CompletionLevel::sent;
};

/// A tag and which of its bits count.
struct TagMatch {
  std::uint64_t tag = 0;                   ///< the bits that are asked for
  std::uint64_t mask = ~std::uint64_t{0};  ///< the bits that count; 0: any tag
};

/// One of several parts of a request. Both slices have the same length.
struct TransferPart {
  Slice local;         ///< this side's memory
  RemoteSlice remote;  ///< the peer's memory
};

/// Several parts, prepared once, that can be put or got many times. Move-only; its regions must
/// outlive it. One run at a time.
class HBMWIRE_API PreparedTransfer {
 public:
  PreparedTransfer(PreparedTransfer&&) noexcept;
  PreparedTransfer& operator=(PreparedTransfer&&) noexcept;
  PreparedTransfer(const PreparedTransfer&) = delete;
  PreparedTransfer& operator=(const PreparedTransfer&) = delete;
  ~PreparedTransfer();

  /// Starts a run: all parts, as one transfer. Errors: Errc::busy while a run is under way, and as
  /// Endpoint::put().
  Result<Transfer> post();

 private:
  friend struct detail::Internals;

  explicit PreparedTransfer(std::unique_ptr<detail::RequestState> state) noexcept;

  std::unique_ptr<detail::RequestState> state_;
};

/// The phase of an endpoint. It moves down this list, and only Endpoint::reconnect() leads back
/// (docs/endpoint-states.md).
enum class EndpointPhase : std::uint8_t {
  ready,   ///< connected
  ending,  ///< something failed or was cancelled: waits until both sides are closed, in bounds
  failed,  ///< all is reported; error() says why; reconnect() may help
  closed,  ///< by close() here, or the peer has ended its side with nothing under way
};

/// "ready" and so on.
[[nodiscard]] HBMWIRE_API std::string_view to_string(EndpointPhase phase) noexcept;

/// A connection to a peer. Move-only; used by its worker's thread. Its functions do not block,
/// unless they take a Wait, and return an error at once where an operation can't be started:
/// Errc::invalid_argument (a slice that leaves its region, a region that is not registered with
/// this endpoint's NIC, or does not allow it), Errc::permission_denied (it goes by a path that
/// EndpointOptions::paths or ContextOptions::paths excludes: the error says why), Errc::exhausted
/// (WorkerOptions::max_transfers), Errc::peer_failed or cancelled (the endpoint is no longer
/// ready). The memory of an operation must stay registered until it is over; the Slice and Region
/// objects need not.
///
/// On one endpoint puts, sends and immediates arrive in the order in which they were started. Bytes
/// that a get() or an atomic brings are not ordered against later puts without fence().
class HBMWIRE_API Endpoint {
 public:
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// As close(), without waiting for the peer.
  ~Endpoint();

  /// Connects to a Listener at "host:port" ("10.0.0.2:7000", "[::1]:7000", "tcp://node2:7000":
  /// split_host_port()); of a name's addresses, to the first that answers. One that stays silent is
  /// left after an equal share of the time that is left, and after 250 ms at the earliest; the last
  /// one has the rest. Drives the worker meanwhile, for a name service, too, so that the
  /// listener may be the same thread's. "rdma_cm://host:port": to one of ListenerOptions::rdma_cm,
  /// by the RDMA connection manager, and by the NIC that it chooses, which must be one of the
  /// worker's. EndpointOptions::retry_connect: tries again after a refusal. Errors: Stage::connect:
  /// Errc::timed_out, cancelled, permission_denied (the pre-shared keys differ), protocol (not an
  /// endpoint, or of another version), peer_failed. Stage::configure: options or policies that
  /// contradict themselves, or what rdma_cm can't keep.
  static Result<Endpoint> connect(const Worker& worker, std::string_view peer, const Wait& wait,
                                  const EndpointOptions& options = {});

  /// The same without waiting, for a name service either: PendingEndpoint (pending.hpp) has the
  /// endpoint when it is over, by `until` at the latest. Where there are many, eight look-ups of a
  /// process go on at a time, and a few connections of a worker begin with each of its looks; the
  /// others follow. Errors: Stage::configure, as connect(); Errc::exhausted
  /// (WorkerOptions::max_transfers); Errc::not_supported, a child by fork(2). All others are its
  /// transfer's.
  static Result<PendingEndpoint> start_connect(const Worker& worker, std::string_view peer,
                                               const Deadline& until,
                                               const EndpointOptions& options = {});

  /// The phase that it is in now.
  [[nodiscard]] EndpointPhase phase() const noexcept;

  /// A number of its own: no other endpoint of this process has the same, nor the one that
  /// reconnect() makes. For IncomingMessage::endpoint_id().
  [[nodiscard]] std::uint64_t id() const noexcept;

  /// Address and port of the peer, as it was connected to or accepted: "node2:7000".
  [[nodiscard]] const std::string& peer() const noexcept;

  /// EndpointOptions::hello of the peer, of a listener that of ListenerOptions::endpoint; empty: it
  /// gave none. At most 1,024 bytes, valid from the start to the end of this Endpoint. Without a
  /// pre-shared key they are only what the peer claims. After reconnect() they are those of the
  /// process that answered then, and spans of the old ones are invalid.
  [[nodiscard]] std::span<const std::byte> peer_hello() const noexcept;

  /// The NIC that it communicates by.
  [[nodiscard]] const Nic& nic() const noexcept;

  /// Where the peer is, as both ends have told each other.
  [[nodiscard]] Placement placement() const noexcept;

  /// Why it is ending or failed.
  [[nodiscard]] std::optional<Error> error() const;

  /// Counters of this connection alone, without times (counters.hpp); reconnect() begins anew. Any
  /// thread may ask, unless another one reconnects or ends it. Errors: Errc::exhausted.
  [[nodiscard]] Result<Counters> counters() const;

  /// Memory that the peer's listener advertises by this name. Asks the peer, which must make
  /// progress. Errors: Errc::not_found, and as wait.
  Result<RemoteRegion> remote(std::string_view name, const Wait& wait);

  /// The same without waiting. Many may be asked for at once: the peer is asked for one after the
  /// other. Errors: as operations; Errc::invalid_argument, a name of 0 or more than 255 bytes. All
  /// others are its transfer's.
  Result<PendingRegion> start_remote(std::string_view name, const Deadline& until);

  /// Memory that the peer gave a key to. Errors: as RemoteKey::on(), and Errc::permission_denied:
  /// the peer's NIC reaches it by a path that the policy excludes.
  Result<RemoteRegion> remote(const RemoteKey& key) const;

  /// The same by the key's bytes (MemoryKey::bytes()), as they came. Errors: as
  /// RemoteKey::unpack(), besides.
  Result<RemoteRegion> remote(std::span<const std::byte> key) const;

  /// Writes `from` into the peer's memory. Needs nothing of the peer's process, unless that memory
  /// is staged (RemoteRegion::path), which takes its progress. The first transfer by a NIC between
  /// two processes of a node waits until the peer's process has made progress once.
  Result<Transfer> put(const Slice& from, const RemoteSlice& to, const PutOptions& options = {});

  /// Reads the peer's memory. Needs what put() needs, and a region here that is registered for
  /// local writing (Access::local_write, or remote_write or remote_atomic, which bring it with
  /// them). Errors: without that Errc::permission_denied, Hint::not_for_local_writing, on every
  /// path; the endpoint stays ready.
  Result<Transfer> get(const Slice& into, const RemoteSlice& from);

  /// All parts, as one transfer. Errors: Errc::not_supported: memory of either end is staged; of a
  /// get Errc::permission_denied, as of get(), for any of its parts.
  Result<PreparedTransfer> prepare_put(std::span<const TransferPart> parts,
                                       const PutOptions& options = {});
  Result<PreparedTransfer> prepare_get(std::span<const TransferPart> parts);

  /// Block `from_blocks[i]` of `from` to block `to_blocks[i]` of `to`, for each i, as one transfer
  /// (blocks.hpp). Pairs that lie side by side at both ends go as one request. By every path; no
  /// order among the blocks. `options` are of the whole: an immediate comes behind all bytes. The
  /// tables and both arrays must stay as they are until it is over. Errors: as put(), and
  /// Errc::invalid_argument (as many numbers at both ends, blocks of one length, numbers that the
  /// tables have); that a path is refused to a pair fails the transfer.
  Result<Transfer> put_blocks(const BlockTable& from, const BlockNumbers& from_blocks,
                              const RemoteBlockTable& to, const BlockNumbers& to_blocks,
                              const PutOptions& options = {});

  /// The same from the peer. Errors: as get() and put_blocks().
  Result<Transfer> get_blocks(const BlockTable& into, const BlockNumbers& into_blocks,
                              const RemoteBlockTable& from, const BlockNumbers& from_blocks);

  /// Changes 64 bits of the peer's memory, at an address that is a multiple of 8
  /// (Access::remote_atomic): fetch_add() adds to them, compare_swap() writes `desired` if they are
  /// `expected`. Transfer::value() is what was there before. Atomic against other NICs' atomics,
  /// not against the peer's CPU. Needs nothing of the peer's process. Errors: Errc::not_supported,
  /// Hint::no_atomics, where this end's NIC has none; where the peer's has none, no key allows it;
  /// without the hint: the peer's memory is staged.
  Result<Transfer> fetch_add(const RemoteSlice& at, std::uint64_t add);
  Result<Transfer> compare_swap(const RemoteSlice& at, std::uint64_t expected,
                                std::uint64_t desired);

  /// Messages. A tagged one goes to the first receive posted whose tag fits, a plain one to the
  /// first plain receive; either to one of its own kind alone. They are matched in the order in
  /// which they were sent. Needs the peer's progress where the message goes by rendezvous, or the
  /// peer has as many messages that it has not looked at as it has places for (four, up to
  /// EndpointOptions::receive_depth), or by
  /// SendOptions::level.
  ///
  /// A message that is longer than its receive fails there (Errc::invalid_argument,
  /// Hint::message_truncated; Transfer::bytes() is its length, and nothing is written), and at its
  /// sender unless it was over before (CompletionLevel::sent, and not by rendezvous). Nothing else
  /// fails by it.
  Result<Transfer> send(const Slice& from, const SendOptions& options = {});
  Result<Transfer> send(const Slice& from, std::uint64_t tag, const SendOptions& options = {});

  /// The memory must be registered for local writing, as that of get(). Where neither end's is open
  /// to the other (Access::remote_read of the sender's, Access::remote_write here), a large message
  /// is registered for, which costs what a registration does.
  /// Errors besides: Errc::invalid_argument: the endpoint hands its messages out.
  Result<Transfer> receive(const Slice& into);
  Result<Transfer> receive(const Slice& into, const TagMatch& match);

  /// The next immediate of a put(): Transfer::value(); bytes(): how many bytes came with it, of the
  /// last piece where the put was longer than a NIC's message, or staged. Where `written` is device
  /// memory, what was put there is visible to the device when this is over.
  Result<Transfer> receive_immediate(const Slice& written = {});

  /// The transfer is over when all puts, lists and messages that go at once and were started before
  /// it have arrived at the peer. It does not wait for a receive: the bytes of a message by
  /// rendezvous may still lie here. Operations that wait for the peer delay it, as they delay all
  /// that is behind them.
  Result<Transfer> flush();

  /// Operations that are started after it begin only when gets and atomics started before it are
  /// over.
  Result<void> fence();

  /// Waits for what is under way, says goodbye, and waits for the peer's goodbye, so that both
  /// sides are closed; needs the peer's progress. The endpoint is closed whatever happens; what is
  /// still under way at the deadline fails with that error, which may take
  /// EndpointOptions::peer_timeout more. Errors: as wait; why the endpoint failed meanwhile;
  /// Errc::peer_failed, no goodbye came. A failed endpoint, and one that the peer closed, is just
  /// let go.
  Result<void> close(const Wait& wait);

  /// The same without waiting: the transfer is over when the endpoint is closed, by `until` and
  /// EndpointOptions::peer_timeout at the latest, and fails with close()'s errors. To cancel it
  /// closes the endpoint at once. Where the Endpoint is dropped, closed by close() or connected
  /// anew meanwhile, the peer's goodbye is not waited for any more: the transfer succeeds then, or
  /// fails with Errc::cancelled where something was still under way. Errors: Errc::busy, another
  /// start_close() is not over; Errc::exhausted (WorkerOptions::max_transfers);
  /// Errc::not_supported, a child by fork(2).
  Result<Transfer> start_close(const Deadline& until);

  /// Waits until the peer has said goodbye, and drives the worker meanwhile: for a side that only
  /// answers. At the deadline the endpoint goes on as before. Errors: as wait; why the endpoint
  /// failed.
  Result<void> wait_closed(const Wait& wait);

  /// Connects anew to the same peer, as connect() did; this is then another connection, perhaps to
  /// another process. Everything that belonged to the old one stays with it: transfers have ended,
  /// nothing is repeated, a RemoteRegion of it is refused (Errc::invalid_argument), and so is a
  /// RemoteKey of a process that has ended (Endpoint::remote()). A NIC whose port is down has no
  /// part in it where the context has others. No other thread may use this Endpoint meanwhile.
  /// Errors: Errc::not_supported, this side was accepted; Errc::busy, phase() is neither failed nor
  /// closed; as connect(), and then all is as before.
  Result<void> reconnect(const Wait& wait);

  /// The same without waiting. It gives another Endpoint; this one stays as it is. Errors: as
  /// reconnect() before anything is done; all others are its transfer's.
  Result<PendingEndpoint> start_reconnect(const Deadline& until) const;

 private:
  friend struct detail::Internals;

  explicit Endpoint(std::shared_ptr<detail::EndpointState> state) noexcept;

  std::shared_ptr<detail::EndpointState> state_;
};

/// A connection without a listener, made of bytes that the application carries. Each end makes an
/// invitation, hands its bytes to the other end, through a store (etcd), MPI or a file, and starts
/// with the other's: in any order, and with any time in between. Move-only; used by its worker's
/// thread. It goes on while the worker makes progress.
class HBMWIRE_API EndpointInvitation {
 public:
  /// Makes the queue pairs. Errors: as Endpoint::connect(), Stage::open.
  static Result<EndpointInvitation> create(const Worker& worker,
                                           const EndpointOptions& options = {});

  EndpointInvitation(EndpointInvitation&&) noexcept;
  EndpointInvitation& operator=(EndpointInvitation&&) noexcept;
  EndpointInvitation(const EndpointInvitation&) = delete;
  EndpointInvitation& operator=(const EndpointInvitation&) = delete;

  /// The peer can't connect by it any more.
  ~EndpointInvitation();

  /// For the peer: at most 512 bytes more than EndpointOptions::hello, which they hold; good once,
  /// and as long as this object lives. With a pre-shared key they prove themselves; they hold
  /// nothing secret.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;

  /// Begins with the peer's bytes, and never blocks; poll() tells when the peer has begun, too.
  /// Errors: Stage::connect: Errc::invalid_argument (not the first time, its own bytes), protocol
  /// (not all of an invitation, or another version's), permission_denied (the keys differ).
  Result<void> start(std::span<const std::byte> theirs);

  /// Drives the worker once: the endpoint when both ends have found each other; before, nothing.
  /// Errors: why it can't be any more; Errc::invalid_argument (not started, or taken already).
  Result<std::optional<Endpoint>> poll();

  /// start(), and poll() until there is one; drives the worker meanwhile. Errors: as those,
  /// Errc::timed_out (poll() may still be asked), Errc::cancelled.
  Result<Endpoint> connect(std::span<const std::byte> theirs, const Wait& wait);

 private:
  friend struct detail::Internals;

  explicit EndpointInvitation(std::unique_ptr<detail::InvitationState> state) noexcept;

  std::unique_ptr<detail::InvitationState> state_;
};

/// Where a Listener listens, and how it treats those that connect.
struct ListenerOptions {
  /// An address of this machine ("10.0.0.2", "::1", "[::1]:7000" where `port` is 0 or the same);
  /// empty: all, IPv4 and IPv6.
  std::string address = {};
  std::uint16_t port = 0;  ///< 0: a free one
  /// By the RDMA connection manager instead of TCP: `address` (or all) is one of an RDMA NIC's
  /// interface, peers connect to "rdma_cm://host:port", and the port is another one than TCP's.
  bool rdma_cm = false;

  /// For each endpoint that it accepts.
  EndpointOptions endpoint = {};

  /// How long the handshake with a peer may take. At least 10 ms; nanoseconds::max(): for ever.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(5);

  /// Peers that shake hands at a time, and as many that are connected and wait for accept(). More
  /// wait in the kernel's queue (sysctl net.core.somaxconn); one that shakes hands and has been
  /// silent for 500 ms gives its place up to them.
  std::uint32_t max_handshakes = 64;
};

/// Where peers connect. Copies share it; used by its worker's thread. Their handshakes go on while
/// the worker makes progress, many at a time: accept() only takes an endpoint that is ready, so
/// that a slow, silent or hostile peer delays no other. The reason of a refusal is logged, and told
/// to the peer.
class HBMWIRE_API Listener {
 public:
  /// Errors: Stage::connect (port in use); Stage::configure, as Endpoint::connect().
  static Result<Listener> create(const Worker& worker, const ListenerOptions& options = {});

  /// The port that it listens on.
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Where others reach this listener, for Endpoint::connect(), the most useful first: "host:port",
  /// an IPv6 address in brackets, and with "rdma_cm://" before it where that is its way. Bound to
  /// one address: that one. To all: those of this machine's interfaces that are up and have a link
  /// now, of the worker's NICs' interfaces before others, IPv4 before IPv6, global IPv6 addresses
  /// before unique local ones. By rdma_cm those of the worker's NICs alone. Link-local ones are
  /// left out, since they mean nothing without the interface of the machine that uses them;
  /// loopback's are there only where there is no other. An address that each machine has (a
  /// container bridge's) or that a translation hides from others can't be told from the rest. Does
  /// not drive the worker. Errors: Stage::connect (getifaddrs(3)).
  [[nodiscard]] Result<std::vector<std::string>> addresses() const;

  /// The next peer, oldest first. Drives the worker. Errors: Errc::timed_out, Errc::cancelled.
  Result<Endpoint> accept(const Wait& wait);

  /// The next peer if there is one. Drives the worker once, never blocks.
  std::optional<Endpoint> try_accept();

  /// Lets peers ask for this memory by `name` (at most 255 bytes), as long as the listener or one
  /// of its endpoints lives, or until withdraw(). Errors: Errc::busy (the name is taken), and as
  /// MemoryKey::pack().
  Result<void> advertise(std::string_view name, const Region& region);
  Result<void> advertise(std::string_view name, const Region& region,
                         const MemoryKeyOptions& options);

  /// Takes the name back, and the key where it can be revoked (MemoryKeyOptions::revocable).
  Result<void> withdraw(std::string_view name);

 private:
  friend struct detail::Internals;

  explicit Listener(std::shared_ptr<detail::ListenerState> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<detail::ListenerState> state_;
};

}  // namespace hbmwire
