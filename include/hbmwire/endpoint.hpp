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
  matched,     ///< by Endpoint::receive(), matched by tag
  handed_out,  ///< by Worker::next_message(), each with its sender, tag and length
};

/// How an endpoint is connected, and how much it holds at a time. Each end has its own.
struct EndpointOptions {
  /// Requests in flight. Further ones are queued and posted when there is room.
  std::uint32_t send_depth = 128;

  /// Messages and immediates that may wait here until this end makes progress. When all places are
  /// taken, further ones wait at the sender. Where endpoints share receives
  /// (WorkerOptions::receive_pool_bytes), four places are certain, and the others exist as long as
  /// the pool has room. 4 to 16,384.
  std::uint32_t receive_depth = 64;

  /// Length of the longest message that is sent at once and copied at the receiver. Longer
  /// messages, and those of device memory, go by rendezvous. The smaller value of both ends counts.
  /// A message that is sent at once comes into host memory. If its receive is for device memory,
  /// the receiver's NIC then copies it there: its path is Path::staged, and the log has a warning.
  /// An end whose policy lets the NIC carry device memory, but excludes Path::staged, always has 0
  /// here. At most WorkerOptions::eager_bytes.
  std::uint32_t eager_bytes = 8192;

  /// Bytes for messages that come before their receives. When such messages take half of the places
  /// (receive_depth), further ones are copied elsewhere, so that more may come. They are copied
  /// while they fit into this many bytes and the worker has room (WorkerOptions::unexpected_bytes).
  std::uint32_t unexpected_bytes = 256 * 1024;

  /// How this end gets its messages. The peer chooses for its own end.
  MessageMode messages = MessageMode::matched;

  /// How long it may take to notice that the peer is gone or cut off. A cancelled or failed
  /// transfer waits for as long, at most, for the peer's word that its side is closed. A peer that
  /// is stopped or busy is not gone. At least 10 ms; nanoseconds::max(): for ever.
  std::chrono::nanoseconds peer_timeout = std::chrono::seconds(2);

  /// An operation that is under way for longer fails (Errc::timed_out), and the endpoint with it.
  /// The time runs from when the operation is handed to the NIC; until then it runs from when the
  /// operation began to wait for room (send_depth). A message that cannot be over before a receive
  /// has taken it (by rendezvous, or at CompletionLevel::arrived) is under way until then. A
  /// receive that no message has matched is not under way. The library notices up to a quarter of
  /// this time late. At least 10 ms; nanoseconds::max(): for ever.
  std::chrono::nanoseconds operation_timeout = std::chrono::seconds(30);

  /// A secret that both ends share; in the handshake they prove to each other that they know it.
  /// Empty: every program that reaches the port may connect, and the log says so once.
  std::vector<std::byte> pre_shared_key = {};

  /// Restricts ContextOptions::paths further. A region of this end that breaks the policy is
  /// refused when it is used (put() and so on: Errc::permission_denied, with the reason). A region
  /// of the peer is refused when it is asked for (remote()).
  PathPolicy paths = {};

  /// Lets connect() try again, until its deadline, when the peer refuses for a reason that may
  /// pass: no program listens there, it is not reachable, it is out of resources, or it closed the
  /// connection or found this end too slow. Pauses between attempts follow exponential backoff with
  /// full jitter: up to 20 ms at first, then up to twice as long each time, 1 s at most. The error
  /// at the deadline is that of the last refusal. reconnect() does the same. It also pauses before
  /// its first attempt, for up to 1 s (up to a quarter of the time that is left, where that is
  /// less): otherwise all peers of a process that restarts would come back at the same moment. Only
  /// the end that connects uses this option.
  bool retry_connect = false;

  /// Bytes of the application for the peer: a name, a rank, a version, an incarnation. At most
  /// 1,024 bytes. They travel in the handshake, and the peer reads them by Endpoint::peer_hello().
  /// The library does not look into them. A pre-shared key authenticates them, as it does all of
  /// the handshake; they are not encrypted. A listener sends them only to a peer that has proven
  /// that it knows the key.
  std::vector<std::byte> hello = {};

  /// Quality of service and addressing. An option that is left open takes the value of the setting
  /// (HBMWIRE_LINK_*), or else the library's choice. A pkey index and an MTU apply to each NIC that
  /// the endpoint has; a NIC that lacks one of them is an error (Stage::connect,
  /// Hint::link_options).
  LinkOptions link = {};
};

class RemoteRegion;

/// A part of the peer's memory; checked when it is used.
struct RemoteSlice {
  const RemoteRegion* region = nullptr;  ///< the region that it is a part of
  std::uint64_t offset_bytes = 0;        ///< from the region's first byte on
  std::uint64_t length_bytes = 0;        ///< may be 0
};

/// Memory of the peer, as Endpoint::remote() gives it. A value. It belongs to one connection: after
/// Endpoint::reconnect() it must be made anew.
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

  /// The path by which the peer's NIC reaches it. Path::staged: only the peer's process reaches it.
  [[nodiscard]] Path path() const noexcept;

  /// `length` bytes from `offset_bytes` on. The range is checked when the slice is used. The slice
  /// points to this object.
  [[nodiscard]] RemoteSlice slice(std::uint64_t offset_bytes, std::uint64_t length) const noexcept {
    return {this, offset_bytes, length};
  }

  /// All of it.
  [[nodiscard]] RemoteSlice slice() const noexcept { return {this, 0, length_bytes()}; }

  /// All of it as blocks of `block_bytes` each (blocks.hpp). Errors: as RemoteBlockTable::create().
  [[nodiscard]] Result<RemoteBlockTable> blocks(std::uint64_t block_bytes) const;

 private:
  friend struct detail::Internals;

  // The library's own. Every transfer reads this state, so all that it reads lies in one cache
  // line.
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
  /// `sent`: over when the memory may be written again. `arrived`: over when a receive of the peer
  /// has taken it. `visible`: as `arrived`, since a receive is over only when its device sees the
  /// bytes. A message that goes by rendezvous is over no earlier than `arrived`.
  CompletionLevel level = CompletionLevel::sent;
};

/// A tag and which of its bits count.
struct TagMatch {
  std::uint64_t tag = 0;                   ///< the bits that are asked for
  std::uint64_t mask = ~std::uint64_t{0};  ///< the bits that count; 0: any tag
};

/// One of several parts of a transfer. Both slices have the same length.
struct TransferPart {
  Slice local;         ///< this side's memory
  RemoteSlice remote;  ///< the peer's memory
};

/// Several parts, prepared once, that can be put or got many times. Move-only. Its regions must
/// outlive it. Only one run at a time.
class HBMWIRE_API PreparedTransfer {
 public:
  PreparedTransfer(PreparedTransfer&&) noexcept;
  PreparedTransfer& operator=(PreparedTransfer&&) noexcept;
  PreparedTransfer(const PreparedTransfer&) = delete;
  PreparedTransfer& operator=(const PreparedTransfer&) = delete;
  ~PreparedTransfer();

  /// Starts a run: all parts, as one transfer. Errors: Errc::busy while a run is under way;
  /// otherwise as Endpoint::put().
  Result<Transfer> post();

 private:
  friend struct detail::Internals;

  explicit PreparedTransfer(std::unique_ptr<detail::RequestState> state) noexcept;

  std::unique_ptr<detail::RequestState> state_;
};

/// The phase of an endpoint. The phase moves down this list; only Endpoint::reconnect() leads back
/// (docs/endpoint-states.md).
enum class EndpointPhase : std::uint8_t {
  ready,   ///< connected; operations may be started
  ending,  ///< something failed or was cancelled; waits, for a bounded time, until both sides are
           ///< closed
  failed,  ///< every failure is reported; error() says why; reconnect() may help
  closed,  ///< close() was called here, or the peer ended its side with nothing under way
};

/// "ready" and so on.
[[nodiscard]] HBMWIRE_API std::string_view to_string(EndpointPhase phase) noexcept;

/// A connection to a peer. Move-only; used by its worker's thread. Its functions do not block,
/// unless they take a Wait. They return an error at once if an operation cannot be started:
/// Errc::invalid_argument (the slice leaves its region, or the region is not registered with this
/// endpoint's NIC or does not allow the operation), Errc::permission_denied (EndpointOptions::paths
/// or ContextOptions::paths excludes its path: the error says why), Errc::exhausted
/// (WorkerOptions::max_transfers), Errc::peer_failed or cancelled (the endpoint is no longer
/// ready). The memory of an operation must stay registered until the operation is over; the Slice
/// and Region objects need not live that long.
///
/// On one endpoint puts, sends and immediates arrive in the order in which they were started. A
/// later put may overtake the bytes of a get() or an atomic, unless fence() is called between them.
class HBMWIRE_API Endpoint {
 public:
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// As close(), without waiting for the peer.
  ~Endpoint();

  /// Connects to a Listener at "host:port" ("10.0.0.2:7000", "[::1]:7000", "tcp://node2:7000":
  /// split_host_port()). If a name has several addresses, connects to the first that answers. Each
  /// silent address gets an equal share of the time that is left, at least 250 ms; the last one
  /// gets the rest. Drives the worker meanwhile, also during a name look-up, so that the listener
  /// may belong to the same thread. "rdma_cm://host:port" connects to a listener with
  /// ListenerOptions::rdma_cm, by the RDMA connection manager and by the NIC that the manager
  /// chooses; that NIC must be one of the worker's. EndpointOptions::retry_connect: tries again
  /// after a refusal. Errors: Stage::connect: Errc::timed_out, cancelled, permission_denied (the
  /// pre-shared keys differ), protocol (the peer is no endpoint, or one of another version),
  /// peer_failed. Stage::configure: options or policies that contradict themselves, or options that
  /// rdma_cm does not support.
  static Result<Endpoint> connect(const Worker& worker, std::string_view peer, const Wait& wait,
                                  const EndpointOptions& options = {});

  /// connect() without waiting, not even for a name look-up. PendingEndpoint (pending.hpp) has the
  /// endpoint, or the error, when the attempt is over: by `until` at the latest. A process has at
  /// most eight name look-ups under way at a time. A worker begins only a few connections each time
  /// it makes progress; the others wait. Errors: Stage::configure, as connect(); Errc::exhausted
  /// (WorkerOptions::max_transfers); Errc::not_supported, a child by fork(2). connect()'s other
  /// errors are those of PendingEndpoint::transfer().
  static Result<PendingEndpoint> start_connect(const Worker& worker, std::string_view peer,
                                               const Deadline& until,
                                               const EndpointOptions& options = {});

  /// The phase that it is in now.
  [[nodiscard]] EndpointPhase phase() const noexcept;

  /// A number that no other endpoint of this process has; reconnect() makes an endpoint with
  /// another number. See IncomingMessage::endpoint_id().
  [[nodiscard]] std::uint64_t id() const noexcept;

  /// Address and port of the peer, as this end connected to it or accepted it: "node2:7000".
  [[nodiscard]] const std::string& peer() const noexcept;

  /// EndpointOptions::hello of the peer; that of ListenerOptions::endpoint, if the peer is a
  /// listener. Empty: the peer gave none. At most 1,024 bytes, valid from the start to the end of
  /// this Endpoint. Without a pre-shared key they are only a claim of the peer. After reconnect()
  /// they are those of the process that answered then, and earlier spans are invalid.
  [[nodiscard]] std::span<const std::byte> peer_hello() const noexcept;

  /// The NIC that it communicates by.
  [[nodiscard]] const Nic& nic() const noexcept;

  /// Where the peer is, as both ends have told each other.
  [[nodiscard]] Placement placement() const noexcept;

  /// Why it is ending or failed.
  [[nodiscard]] std::optional<Error> error() const;

  /// Counters of this connection alone, without times (counters.hpp). reconnect() begins anew. Any
  /// thread may ask, unless another thread reconnects or ends the endpoint. Errors:
  /// Errc::exhausted.
  [[nodiscard]] Result<Counters> counters() const;

  /// Memory that the peer's listener advertises by this name. Asks the peer, which must make
  /// progress to answer. Errors: Errc::not_found; Errc::invalid_argument, a name of 0 or more than
  /// 255 bytes; Errc::timed_out, Errc::cancelled.
  Result<RemoteRegion> remote(std::string_view name, const Wait& wait);

  /// remote() without waiting. Several calls may be under way; the peer is asked for one region
  /// after the other. Errors: as operations; Errc::invalid_argument, a name of 0 or more than 255
  /// bytes. remote()'s other errors are those of PendingRegion::transfer().
  Result<PendingRegion> start_remote(std::string_view name, const Deadline& until);

  /// Memory that the peer gave a key to. Errors: as RemoteKey::on(), and Errc::permission_denied:
  /// the policy excludes the path by which the peer's NIC reaches the memory.
  Result<RemoteRegion> remote(const RemoteKey& key) const;

  /// The same for the bytes of a key (MemoryKey::bytes()), as they came. Errors: also those of
  /// RemoteKey::unpack().
  Result<RemoteRegion> remote(std::span<const std::byte> key) const;

  /// Writes `from` into the peer's memory. The peer's process need do nothing, unless that memory
  /// is staged (RemoteRegion::path): then it must make progress. The first transfer by a NIC
  /// between two processes of a node waits until the peer's process has made progress once.
  Result<Transfer> put(const Slice& from, const RemoteSlice& to, const PutOptions& options = {});

  /// Reads the peer's memory. The peer's process must make progress in the same cases as for put().
  /// The region here must be registered for local writing (Access::local_write; remote_write and
  /// remote_atomic include it). Errors: without local writing Errc::permission_denied,
  /// Hint::not_for_local_writing, on every path; the endpoint stays ready.
  Result<Transfer> get(const Slice& into, const RemoteSlice& from);

  /// Prepares parts that PreparedTransfer::post() puts or gets as one transfer. Errors:
  /// Errc::not_supported: memory of either end is staged. For a get, Errc::permission_denied as in
  /// get(), if it applies to any part.
  Result<PreparedTransfer> prepare_put(std::span<const TransferPart> parts,
                                       const PutOptions& options = {});
  Result<PreparedTransfer> prepare_get(std::span<const TransferPart> parts);

  /// Writes block `from_blocks[i]` of `from` to block `to_blocks[i]` of `to`, for each i, as one
  /// transfer (blocks.hpp). Pairs that lie side by side at both ends go as one request. Works on
  /// every path; the blocks have no order among themselves. `options` are of the whole: an
  /// immediate comes after all bytes. The tables and both arrays must stay as they are until the
  /// transfer is over. Errors: as put(), and Errc::invalid_argument (both ends need as many
  /// numbers, blocks of one length, and numbers within the tables). If a path is refused for one
  /// pair, the transfer fails.
  Result<Transfer> put_blocks(const BlockTable& from, const BlockNumbers& from_blocks,
                              const RemoteBlockTable& to, const BlockNumbers& to_blocks,
                              const PutOptions& options = {});

  /// The same from the peer. Errors: as get() and put_blocks().
  Result<Transfer> get_blocks(const BlockTable& into, const BlockNumbers& into_blocks,
                              const RemoteBlockTable& from, const BlockNumbers& from_blocks);

  /// Changes 64 bits of the peer's memory, at an address that is a multiple of 8
  /// (Access::remote_atomic). fetch_add() adds to them; compare_swap() writes `desired` if they are
  /// `expected`. Transfer::value() is the value before. Atomic with respect to atomics of other
  /// NICs, not to the peer's CPU. The peer's process need do nothing. Errors: Errc::not_supported,
  /// with Hint::no_atomics if this end's NIC has none, without the hint if the peer's memory is
  /// staged. If the peer's NIC has none, no key allows atomics.
  Result<Transfer> fetch_add(const RemoteSlice& at, std::uint64_t add);
  Result<Transfer> compare_swap(const RemoteSlice& at, std::uint64_t expected,
                                std::uint64_t desired);

  /// Messages. A tagged message goes to the first posted receive whose tag fits, a plain one to the
  /// first plain receive; tagged and plain ones never match each other. Messages are matched in the
  /// order in which they were sent. A send needs the peer's progress in three cases: the message
  /// goes by rendezvous; messages that the peer has not looked at fill all of its places (it has at
  /// least four, and up to EndpointOptions::receive_depth); or SendOptions::level asks for it.
  ///
  /// A message that is longer than its receive makes that receive fail (Errc::invalid_argument,
  /// Hint::message_truncated; Transfer::bytes() is the length of the message, and no byte is
  /// written). The send fails, too, unless it was over before (CompletionLevel::sent, and not by
  /// rendezvous). Nothing else fails because of it.
  Result<Transfer> send(const Slice& from, const SendOptions& options = {});
  Result<Transfer> send(const Slice& from, std::uint64_t tag, const SendOptions& options = {});

  /// Receives a message into memory that is registered for local writing, as in get(). A message by
  /// rendezvous needs Access::remote_read at the sender, or Access::remote_write here: if the
  /// memory has neither, this end registers its memory anew for that message, which takes time.
  /// Errors besides: Errc::invalid_argument: the endpoint hands its messages out.
  Result<Transfer> receive(const Slice& into);
  Result<Transfer> receive(const Slice& into, const TagMatch& match);

  /// The next immediate of a put(): Transfer::value() is the immediate, bytes() the number of bytes
  /// that came with it. If the put was staged, or longer than one message of a NIC, bytes() counts
  /// its last piece alone. If `written` is device memory, the bytes that were put there are visible
  /// to the device when this is over.
  Result<Transfer> receive_immediate(const Slice& written = {});

  /// Its transfer is over when all puts, prepared transfers, and messages sent at once that were
  /// started before it have arrived at the peer. It does not wait for a receive: the bytes of a
  /// message by rendezvous may still lie here. Operations that wait for the peer delay it, as they
  /// delay everything behind them.
  Result<Transfer> flush();

  /// Operations that are started after it begin only when gets and atomics started before it are
  /// over.
  Result<void> fence();

  /// Waits for operations under way, says goodbye, and waits for the peer's goodbye, so that both
  /// sides are closed. Needs the peer's progress. The endpoint is closed in every case. Operations
  /// that are still under way when `wait` ends fail with the same error as this call, which may
  /// take EndpointOptions::peer_timeout more. Errors: Errc::timed_out, Errc::cancelled; why the
  /// endpoint failed meanwhile; Errc::peer_failed, no goodbye came. For an endpoint that has
  /// failed, or that the peer has closed, it does nothing but let go of it.
  Result<void> close(const Wait& wait);

  /// close() without waiting. The transfer is over when the endpoint is closed, by `until` plus
  /// EndpointOptions::peer_timeout at the latest, and fails with close()'s errors. Cancelling it
  /// closes the endpoint at once. If the Endpoint is dropped, closed by close() or reconnected
  /// meanwhile, the transfer no longer waits for the peer's goodbye: it succeeds then, or fails
  /// with Errc::cancelled if something was still under way. Errors: Errc::busy, another
  /// start_close() is not over; Errc::exhausted (WorkerOptions::max_transfers);
  /// Errc::not_supported, a child by fork(2).
  Result<Transfer> start_close(const Deadline& until);

  /// Waits until the peer has said goodbye, and drives the worker meanwhile: for a side that only
  /// answers. If `wait` ends before the goodbye, the endpoint goes on as before. Errors:
  /// Errc::timed_out, Errc::cancelled; why the endpoint failed.
  Result<void> wait_closed(const Wait& wait);

  /// Connects to the same peer again, as connect() did. The result is another connection, perhaps
  /// to another process. Everything of the old connection has ended: its transfers are over,
  /// nothing is repeated, and its RemoteRegions are refused (Errc::invalid_argument), as is a
  /// RemoteKey of a process that has ended (Endpoint::remote()). A NIC whose port is down is left
  /// out if the context has others. No other thread may use this Endpoint meanwhile. Errors:
  /// Errc::not_supported, this side was accepted; Errc::busy, phase() is neither failed nor closed;
  /// those of connect(), after which the endpoint is as before.
  Result<void> reconnect(const Wait& wait);

  /// reconnect() without waiting. It gives another Endpoint; this one stays as it is. Errors:
  /// Errc::not_supported and Errc::busy as reconnect(); those of start_connect(). Its other errors
  /// are those of PendingEndpoint::transfer().
  Result<PendingEndpoint> start_reconnect(const Deadline& until) const;

 private:
  friend struct detail::Internals;

  explicit Endpoint(std::shared_ptr<detail::EndpointState> state) noexcept;

  std::shared_ptr<detail::EndpointState> state_;
};

/// A connection without a listener, made of bytes that the application carries. Each end makes an
/// invitation, carries its bytes to the other end (through a store such as etcd, MPI or a file),
/// and starts with the bytes of the other end: in any order, with any time in between. Move-only;
/// used by its worker's thread. It proceeds while the worker makes progress.
class HBMWIRE_API EndpointInvitation {
 public:
  /// Makes the queue pairs. Errors: as Endpoint::connect(), Stage::open.
  static Result<EndpointInvitation> create(const Worker& worker,
                                           const EndpointOptions& options = {});

  EndpointInvitation(EndpointInvitation&&) noexcept;
  EndpointInvitation& operator=(EndpointInvitation&&) noexcept;
  EndpointInvitation(const EndpointInvitation&) = delete;
  EndpointInvitation& operator=(const EndpointInvitation&) = delete;

  /// Withdraws the invitation: the peer can no longer connect by it.
  ~EndpointInvitation();

  /// The bytes for the peer: at most 512 bytes more than EndpointOptions::hello, which they hold.
  /// They serve for one connection, and only while this object lives. With a pre-shared key they
  /// are authenticated; they hold no secret.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;

  /// Begins with the peer's bytes. Never blocks; poll() tells when the peer has begun, too. Errors:
  /// Stage::connect: Errc::invalid_argument (start() was called before, or these are its own
  /// bytes), protocol (an incomplete invitation, or one of another version), permission_denied (the
  /// keys differ).
  Result<void> start(std::span<const std::byte> theirs);

  /// Drives the worker once. Gives the endpoint when both ends have found each other, before that
  /// nothing. Errors: why there can be no connection any more; Errc::invalid_argument (not started,
  /// or taken already).
  Result<std::optional<Endpoint>> poll();

  /// start(), then poll() until there is an endpoint; drives the worker meanwhile. Errors: as
  /// start() and poll(); Errc::timed_out (poll() may still be called), Errc::cancelled.
  Result<Endpoint> connect(std::span<const std::byte> theirs, const Wait& wait);

 private:
  friend struct detail::Internals;

  explicit EndpointInvitation(std::unique_ptr<detail::InvitationState> state) noexcept;

  std::unique_ptr<detail::InvitationState> state_;
};

/// Where a Listener listens, and how it treats peers that connect.
struct ListenerOptions {
  /// An address of this machine ("10.0.0.2", "::1", or "[::1]:7000" if `port` is 0 or the same).
  /// Empty: all addresses, IPv4 and IPv6.
  std::string address = {};
  std::uint16_t port = 0;  ///< 0: a free port
  /// Listens by the RDMA connection manager instead of TCP. `address` (or each address) is then one
  /// of an RDMA NIC's interface, peers connect to "rdma_cm://host:port", and the port is distinct
  /// from TCP's.
  bool rdma_cm = false;

  /// Options of each endpoint that it accepts.
  EndpointOptions endpoint = {};

  /// How long the handshake with a peer may take. At least 10 ms; nanoseconds::max(): for ever.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(5);

  /// How many peers may be in the handshake at a time; as many again may be connected and wait for
  /// accept(). Further ones wait in the kernel's queue (sysctl net.core.somaxconn). A peer that is
  /// silent for 500 ms in its handshake gives up its place to one that waits.
  std::uint32_t max_handshakes = 64;
};

/// Where peers connect. Copies share it; used by its worker's thread. Many handshakes proceed at
/// the same time while the worker makes progress. accept() only takes an endpoint that is ready, so
/// a slow, silent or hostile peer delays no other. The reason of a refusal is logged, and told to
/// the peer.
class HBMWIRE_API Listener {
 public:
  /// Errors: Stage::connect (the port is in use); Stage::configure, as Endpoint::connect().
  static Result<Listener> create(const Worker& worker, const ListenerOptions& options = {});

  /// The port that it listens on.
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Where others reach this listener, for Endpoint::connect(), the most useful first: "host:port",
  /// an IPv6 address in brackets, with "rdma_cm://" before it if it listens by that. A listener
  /// bound to one address has that one. A listener on all addresses has those of this machine's
  /// interfaces that are up and have a link now; by rdma_cm only those of the worker's NICs. The
  /// order: interfaces of the worker's NICs before others, IPv4 before IPv6, global IPv6 addresses
  /// before unique local ones. Link-local addresses are left out, since they mean nothing without
  /// the interface of the machine that uses them. Loopback addresses are there only if there is no
  /// other. Two kinds cannot be told from the rest: an address that each machine has (a container
  /// bridge's), and one that address translation hides from others. Does not drive the worker.
  /// Errors: Stage::connect (getifaddrs(3)).
  [[nodiscard]] Result<std::vector<std::string>> addresses() const;

  /// The next peer, oldest first. Drives the worker. Errors: Errc::timed_out, Errc::cancelled.
  Result<Endpoint> accept(const Wait& wait);

  /// The next peer, if there is one. Drives the worker once, never blocks.
  std::optional<Endpoint> try_accept();

  /// Lets peers ask for this memory by `name` (at most 255 bytes). Ends with withdraw(), or when
  /// the listener and all its endpoints have gone. Errors: Errc::busy (the name is taken), and as
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
