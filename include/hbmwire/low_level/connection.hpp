// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/link.hpp"
#include "hbmwire/nic.hpp"

/// One queue pair, for programs that need no more than that and exchange addresses themselves. Most
/// programs need only an Endpoint, which does all of it, on any path.
namespace hbmwire {

/// The address of a queue pair. The peer needs it to connect. A value that travels.
struct ConnectionAddress {
  std::array<std::uint8_t, 16> gid{};   ///< of its port
  std::uint32_t queue_pair = 0;         ///< 24 bits
  std::uint32_t packet_sequence = 0;    ///< 24 bits; our send queue starts with it
  std::uint32_t mtu_bytes = 0;          ///< ours; both sides take the smaller one
  std::uint16_t lid = 0;                ///< of its port; InfiniBand only
  bool ethernet = true;                 ///< RoCE; false: InfiniBand
  std::uint64_t max_message_bytes = 0;  ///< the longest message of its port
  /// Random number of the process, never 0. A process that is started again has another one, so
  /// that RemoteKey::on() refuses memory keys that it gave before.
  std::uint64_t incarnation = 0;

  bool operator==(const ConnectionAddress&) const = default;
};

/// Memory of a peer, with the key by which its NIC lets others write and read it.
struct RemoteMemory {
  std::uint64_t address = 0;       ///< of its first byte, at the peer
  std::uint64_t length_bytes = 0;  ///< 0: none
  std::uint32_t remote_key = 0;    ///< of the peer's NIC

  /// `length` bytes from `offset_bytes` on. Errors: Errc::invalid_argument, Stage::post (not all of
  /// the range lies within this memory).
  [[nodiscard]] HBMWIRE_API Result<RemoteMemory> slice(std::uint64_t offset_bytes,
                                                       std::uint64_t length) const noexcept;

  bool operator==(const RemoteMemory&) const = default;
};

namespace detail {
struct ConnectionState;
}

/// The end of a work request.
struct Completion {
  /// The kinds of work requests; the last two are receives.
  enum class Kind : std::uint8_t { send, write, read, receive, receive_write_immediate };

  std::uint64_t id = 0;            ///< as given when posted
  Kind kind = Kind::send;          ///< which work request it was
  std::uint32_t length_bytes = 0;  ///< of a receive: how many bytes arrived
  bool has_immediate = false;      ///< of a receive: whether `immediate` came with it
  std::uint32_t immediate = 0;     ///< 32 bits from the peer
};

/// One reliable connection (an RC queue pair with a completion queue of its own). Move-only; one
/// thread at a time.
class HBMWIRE_API Connection {
 public:
  /// How deep its queues are, and how its packets are marked.
  struct Options {
    std::uint32_t send_depth = 64;     ///< work requests in flight, at most
    std::uint32_t receive_depth = 64;  ///< posted receives, at most; one of the two depths may be 0
    /// A connection reads no settings: an option that is left open has its default.
    LinkOptions link = {};
  };

  /// Makes a queue pair. Errors: Stage::configure: both depths are 0, a depth exceeds the NIC's
  /// (ibv_query_device(3): max_qp_wr), or no queue pair has that link option; Stage::connect,
  /// Hint::link_options: the NIC's port does not have that link option; Stage::open.
  static Result<Connection> create(const Nic& nic, const Options& options);

  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// The address that the peer's connect() takes. Valid as long as this object.
  [[nodiscard]] const ConnectionAddress& local() const noexcept;

  /// Takes the queue pair to ready-to-send. Receives may be posted before, and should be.
  Result<void> connect(const ConnectionAddress& remote);

  /// The address that connect() was given; empty before that, and after it failed.
  [[nodiscard]] const std::optional<ConnectionAddress>& remote() const noexcept;

  /// The largest message that both ends can carry; valid after connect().
  [[nodiscard]] std::uint64_t max_message_bytes() const noexcept;

  /// Each posts one signaled work request. Slices must stay registered until its completion. A
  /// slice of length 0 carries no bytes. Errors: Stage::post; Errc::exhausted when the queue is
  /// full; Errc::invalid_argument if a slice leaves its region, or its region is not registered
  /// with this connection's NIC; Errc::permission_denied if a slice would be written to, and is
  /// registered for reading alone.
  Result<void> post_receive(std::uint64_t id, const Slice& into);
  Result<void> post_send(std::uint64_t id, const Slice& from);
  Result<void> post_write(std::uint64_t id, const Slice& from, const RemoteMemory& to);
  Result<void> post_write_immediate(std::uint64_t id, const Slice& from, const RemoteMemory& to,
                                    std::uint32_t immediate);
  Result<void> post_read(std::uint64_t id, const Slice& into, const RemoteMemory& from);

  /// The next completion, if there is one now. Never blocks. Work that failed is an error with the
  /// decoded status (Stage::complete).
  Result<std::optional<Completion>> poll();

  /// The next completion: polls for a moment, then sleeps on the completion channel. Work that
  /// failed is an error with the decoded status (Stage::complete). Errors besides: Errc::timed_out,
  /// Errc::cancelled. `also_fd` (or -1) is a second descriptor, such as the control channel's. If
  /// it becomes readable or hangs up, the wait ends without an error and without a completion
  /// (std::nullopt).
  Result<std::optional<Completion>> wait(const Wait& wait, int also_fd = -1);

 private:
  explicit Connection(std::unique_ptr<detail::ConnectionState> state) noexcept;
  std::unique_ptr<detail::ConnectionState> state_;
};

}  // namespace hbmwire
