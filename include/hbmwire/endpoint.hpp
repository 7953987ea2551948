// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/path.hpp"
#include "hbmwire/transfer.hpp"
#include "hbmwire/worker.hpp"

/// Endpoints: put, get, send and receive between any memories (docs/endpoint.md).
namespace hbmwire {

namespace detail {
struct EndpointState;
struct ListenerState;
struct RequestState;
}  // namespace detail

struct EndpointOptions {
  /// Requests in flight; more are queued, and go as there is room.
  std::uint32_t send_depth = 128;

  /// Messages and immediates that may wait at the receiver until it looks; the sender's then wait.
  std::uint32_t receive_depth = 64;

  /// Messages up to this size are sent at once and copied at the receiver; larger ones, and those
  /// of and to device memory, go by rendezvous. The smaller one of both ends' counts.
  std::uint32_t eager_bytes = 8192;

  /// How long it may take to notice that the peer is gone or cut off, and how long a cancelled or
  /// failed transfer waits for the peer's word that its side is closed. A peer that is stopped or
  /// busy is not gone.
  std::chrono::nanoseconds peer_timeout = std::chrono::seconds(2);

  /// What is under way for longer fails (Errc::timed_out), and the endpoint with it.
  std::chrono::nanoseconds operation_timeout = std::chrono::seconds(30);

  /// Shared by both ends, which prove to each other that they know it; empty: whoever reaches the
  /// port may connect, and that is logged once.
  std::vector<std::byte> pre_shared_key = {};

  /// Besides the Context's.
  PathPolicy paths = {};
};

/// Memory of the peer at the other end of one endpoint. A value. It ends with the connection: after
/// Endpoint::reconnect() it must be made anew (Endpoint::remote()).
struct RemoteRegion;

/// A part of it; checked when it is used.
struct RemoteSlice {
  const RemoteRegion* region = nullptr;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

struct RemoteRegion {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t connection = 0;  ///< of the process' connections, which one it belongs to
  Access access = Access::none;
  MemoryType type = MemoryType::host;

  [[nodiscard]] RemoteSlice slice(std::uint64_t offset_bytes, std::uint64_t length) const noexcept {
    return {this, offset_bytes, length};
  }
};

struct PutOptions {
  CompletionLevel level = CompletionLevel::arrived;
  /// Handed to the peer's receive_immediate() after the bytes have arrived there.
  std::optional<std::uint32_t> immediate = {};
};

/// A tag and which of its bits count.
struct TagMatch {
  std::uint64_t tag = 0;
  std::uint64_t mask = ~std::uint64_t{0};
};

/// One of several parts of a request. Both slices have the same length.
struct TransferPart {
  Slice local;
  RemoteSlice remote;
};

/// Several parts, prepared once, that can be put (or got) as often as wanted. Move-only; its
/// regions must outlive it. One run at a time.
class HBMWIRE_API PreparedTransfer {
 public:
  explicit PreparedTransfer(std::unique_ptr<detail::RequestState> state) noexcept;
  PreparedTransfer(PreparedTransfer&&) noexcept;
  PreparedTransfer& operator=(PreparedTransfer&&) noexcept;
  PreparedTransfer(const PreparedTransfer&) = delete;
  PreparedTransfer& operator=(const PreparedTransfer&) = delete;
  ~PreparedTransfer();

  /// Errors: Errc::busy while it is under way already, and as Endpoint::put().
  Result<Transfer> post();

 private:
  std::unique_ptr<detail::RequestState> state_;
};

/// What an endpoint can be in; it goes from left to right.
enum class EndpointPhase : std::uint8_t {
  ready,   ///< connected
  ending,  ///< something failed or was cancelled: waits until both sides are closed, in bounds
  failed,  ///< error() says why; reconnect() may help
  closed,  ///< by close(), here or there
};

[[nodiscard]] HBMWIRE_API std::string_view to_string(EndpointPhase phase) noexcept;

/// A connection to a peer. Move-only; used by its worker's thread. Its functions do not block,
/// unless they take a Wait, and return an error at once where an operation can't be started:
/// Errc::invalid_argument (a slice that leaves its region, a region that is not registered with
/// this endpoint's NIC, or does not allow it), Errc::exhausted (WorkerOptions::max_transfers),
/// Errc::peer_failed or cancelled (the endpoint is no longer ready). The memory of an operation
/// must stay registered until it is over; the Slice and Region objects need not.
///
/// On one endpoint puts, sends and immediates arrive in the order in which they were started. What
/// a get() or an atomic brings is not ordered against later puts without fence().
class HBMWIRE_API Endpoint {
 public:
  explicit Endpoint(std::shared_ptr<detail::EndpointState> state) noexcept;
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// As close(), without waiting for the peer.
  ~Endpoint();

  /// Connects to a Listener at "host:port" ("[::1]:7000"). Errors: Stage::connect.
  static Result<Endpoint> connect(const Worker& worker, std::string_view peer, const Wait& wait,
                                  const EndpointOptions& options = {});

  [[nodiscard]] EndpointPhase phase() const noexcept;
  [[nodiscard]] const std::string& peer() const noexcept;  ///< "node2:7000"
  [[nodiscard]] const Nic& nic() const noexcept;

  /// Why it is ending or failed.
  [[nodiscard]] std::optional<Error> error() const;

  /// Memory that the peer's listener advertises by this name. Asks the peer, which must make
  /// progress. Errors: Errc::not_found, and as wait.
  Result<RemoteRegion> remote(std::string_view name, const Wait& wait);

  /// Memory that the peer gave a key to. Errors: as RemoteKey::on().
  Result<RemoteRegion> remote(const RemoteKey& key) const;

  /// Writes `from` into the peer's memory. Needs nothing of the peer's process.
  Result<Transfer> put(const Slice& from, const RemoteSlice& to, const PutOptions& options = {});

  /// Reads the peer's memory. Needs nothing of the peer's process.
  Result<Transfer> get(const Slice& into, const RemoteSlice& from);

  /// All parts, as one transfer.
  Result<PreparedTransfer> prepare_put(std::span<const TransferPart> parts,
                                       const PutOptions& options = {});
  Result<PreparedTransfer> prepare_get(std::span<const TransferPart> parts);

  /// 64 bits of the peer's memory, at an address that is a multiple of 8 (Access::remote_atomic).
  /// Transfer::value() is what was there before. Atomic against other NICs' atomics, not against
  /// the peer's CPU. Needs nothing of the peer's process.
  Result<Transfer> fetch_add(const RemoteSlice& at, std::uint64_t add);
  Result<Transfer> compare_swap(const RemoteSlice& at, std::uint64_t expected,
                                std::uint64_t desired);

  /// Messages. A tagged one goes to the first receive posted whose tag fits, a plain one to the
  /// first plain receive. Needs the peer's progress where the message goes by rendezvous, or the
  /// peer has EndpointOptions::receive_depth messages that it has not looked at.
  Result<Transfer> send(const Slice& from);
  Result<Transfer> send(const Slice& from, std::uint64_t tag);
  Result<Transfer> receive(const Slice& into);
  Result<Transfer> receive(const Slice& into, const TagMatch& match);

  /// The next immediate of a put(). Where `written` is device memory, what was put there is visible
  /// to the device when this is over.
  Result<Transfer> receive_immediate(const Slice& written = {});

  /// Over when everything that was started before has arrived.
  Result<Transfer> flush();

  /// What is started after it begins only when gets and atomics started before it are over.
  Result<void> fence();

  /// Waits for what is under way, then says goodbye. Errors: as wait; the endpoint is closed
  /// whatever happens.
  Result<void> close(const Wait& wait);

 private:
  std::shared_ptr<detail::EndpointState> state_;
};

struct ListenerOptions {
  std::string address;     ///< of this machine; empty: all, IPv4 and IPv6
  std::uint16_t port = 0;  ///< 0: a free one
  EndpointOptions endpoint;
};

/// Where peers connect. Copies share it; used by its worker's thread.
class HBMWIRE_API Listener {
 public:
  /// Errors: Stage::connect (port in use).
  static Result<Listener> create(const Worker& worker, const ListenerOptions& options = {});

  [[nodiscard]] std::uint16_t port() const noexcept;

  /// The next peer. One that does not speak, or is refused, is logged and nobody waits for it.
  /// Errors: Errc::timed_out, Errc::cancelled.
  Result<Endpoint> accept(const Wait& wait);

  /// Peers may ask for this memory by `name` (at most 255 bytes), as long as the listener or one
  /// of its endpoints lives, or until withdraw(). Errors: Errc::busy (the name is taken), and as
  /// MemoryKey::pack().
  Result<void> advertise(std::string_view name, const Region& region,
                         const MemoryKeyOptions& options = {});

  /// Takes the name back, and the key where it can be revoked (MemoryKeyOptions::revocable).
  Result<void> withdraw(std::string_view name);

  explicit Listener(std::shared_ptr<detail::ListenerState> state) noexcept
      : state_(std::move(state)) {}

 private:
  std::shared_ptr<detail::ListenerState> state_;
};

}  // namespace hbmwire
