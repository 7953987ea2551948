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
#include <utility>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/region.hpp"

/// Memory keys: bytes by which a process lets another one reach a region, by any of its NICs.
/// docs/memory-keys.md describes their contents, and which part of them the NIC enforces.
namespace hbmwire {

class Connection;
struct ConnectionAddress;

/// Where a process of the same node gets the dma-buf of a region. A value that travels in a memory
/// key.
struct AttachAddress {
  std::string socket;  ///< name of an abstract socket, unix(7); at most 100 bytes
  std::array<std::uint8_t, 16> secret{};  ///< random; a process that knows it may attach
  bool operator==(const AttachAddress&) const = default;
};

/// The range, the rights and the lifetime of a new key.
struct MemoryKeyOptions {
  std::uint64_t offset_bytes = 0;                  ///< from the region's address on
  std::optional<std::uint64_t> length_bytes = {};  ///< empty: all bytes behind the offset

  /// Access::remote_write, remote_read, remote_atomic, or several; empty: as the region. If the
  /// region itself is open to peers, the key may allow no more than the region does. If it is not
  /// (Access::none, local_write), the key may allow any access, and peers reach the memory by its
  /// keys alone.
  std::optional<Access> access = {};

  bool revocable = false;  ///< MemoryKey::revoke() will be called
  /// Lifetime from now on: more than 0, at most 100 years. Empty or nanoseconds::max(): never
  /// expires.
  std::optional<std::chrono::nanoseconds> expires_after = {};
  std::optional<AttachAddress> attach = {};  ///< for processes of the same node
};

/// One NIC's access to the memory of a key.
struct MemoryKeyNic {
  std::array<std::uint8_t, 16> gid{};  ///< of its port
  std::uint32_t remote_key = 0;        ///< the key by which the NIC knows the memory

  bool operator==(const MemoryKeyNic&) const = default;
};

/// The contents of a key. A value.
struct MemoryKeyInfo {
  MemoryType type = MemoryType::host;  ///< of the memory
  std::uint64_t address = 0;           ///< of its first byte, in the exporting process
  std::uint64_t length_bytes = 0;      ///< at least 1
  Access access = Access::none;        ///< remote_write, remote_read, remote_atomic, or several
  Path path = Path::host;              ///< by which the exporter's NICs reach it; staged: no NIC
                                       ///< reaches it
  std::uint64_t incarnation = 0;       ///< of the exporting process, ConnectionAddress::incarnation
  /// When it expires, by the exporter's clock; empty: never.
  std::optional<std::chrono::sys_time<std::chrono::nanoseconds>> expires = {};
  std::uint64_t token = 0;  ///< never 0; the exporting process finds the memory by it
  /// In the region's order; no GID twice. Empty if no NIC reaches the memory.
  std::vector<MemoryKeyNic> nics = {};
  std::optional<AttachAddress> attach = {};

  bool operator==(const MemoryKeyInfo&) const = default;
};

namespace detail {
struct MemoryKeyState;
}

/// A key to a region, as its exporter has it. While it lives, a peer that knows bytes() may do what
/// the key allows, by any NIC of the region, and the memory stays allocated and registered. A key
/// that allows less than the region's own registration, or can end earlier, has registrations of
/// its own (docs/adr/0016). The NICs themselves then enforce range, access and end, whatever
/// software the peer uses. Move-only; its functions may be called from many threads.
class HBMWIRE_API MemoryKey {
 public:
  /// Makes a key to a region. Errors, all of Stage::register_memory: Errc::invalid_argument (range,
  /// access, expiry or attach address, two NICs with one GID), or as Nic::register_memory();
  /// nothing is registered then.
  static Result<MemoryKey> pack(const Region& region, const MemoryKeyOptions& options = {});

  MemoryKey(MemoryKey&&) noexcept;
  MemoryKey& operator=(MemoryKey&&) noexcept;
  MemoryKey(const MemoryKey&) = delete;
  MemoryKey& operator=(const MemoryKey&) = delete;

  /// Revokes the key's own registrations, and the token by which this process serves the peer. If
  /// the key uses the region's own registration, NICs accept it until that ends.
  ~MemoryKey();

  /// The bytes to send to the peer, by any means. Every reader of these bytes has the key. Valid as
  /// long as this object.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;

  /// The contents of the key. Valid as long as this object.
  [[nodiscard]] const MemoryKeyInfo& info() const noexcept;

  /// Whether it has registrations of its own, so that revoke() can take it back.
  [[nodiscard]] bool revocable() const noexcept;

  /// False when it was revoked, or has expired.
  [[nodiscard]] bool valid() const noexcept;

  /// Takes the key back: when this returns, no NIC accepts it any more, and no byte moves by it.
  /// Waits for work with the key that NICs, engines of this process, and other processes of this
  /// node have begun. A call after a success does nothing. A call after Errc::timed_out, or after
  /// the key has expired during a copy, waits for that copy again.
  /// Errors: Errc::not_supported (not revocable()). Errc::timed_out (Hint::peer_unsettled): a
  /// process of this node was stopped in the middle of a copy by Path::shared_memory, and did not
  /// go on within EndpointOptions::peer_timeout; the key has ended, but that process finishes its
  /// copy when it goes on. Stage::register_memory with the errno of ibv_dereg_mr(3): the key may
  /// still be valid; call again.
  Result<void> revoke();

 private:
  explicit MemoryKey(std::unique_ptr<detail::MemoryKeyState> state) noexcept;

  std::unique_ptr<detail::MemoryKeyState> state_;
};

/// A key to memory of a peer, as the peer has it. A value: copies share its contents, and a move
/// copies, so that each object stays valid. Its functions may be called from many threads.
class HBMWIRE_API RemoteKey {
 public:
  /// Reads the bytes of a key, which may come from anywhere: exactly the bytes of
  /// MemoryKey::bytes(), or an error. It does not check who made them. Errors: Errc::protocol,
  /// Stage::connect.
  static Result<RemoteKey> unpack(std::span<const std::byte> bytes);

  RemoteKey(const RemoteKey&) noexcept = default;
  RemoteKey& operator=(const RemoteKey&) noexcept = default;
  ~RemoteKey() = default;

  /// The contents of the key. Valid as long as this object.
  [[nodiscard]] const MemoryKeyInfo& info() const noexcept;

  /// The memory for Connection::post_write() and post_read(): all of the key's memory, by the NIC
  /// that the connection leads to. RemoteMemory::slice() gives a part of it. Errors, all of
  /// Stage::post: Errc::peer_failed (the connection leads to a process that did not make the key:
  /// the peer was started anew), Errc::permission_denied (expired, by this machine's clock),
  /// Errc::not_found (the key does not name that NIC), Errc::invalid_argument (not connected).
  [[nodiscard]] Result<RemoteMemory> on(const Connection& connection) const;

  /// The same for the address that the peer's Connection::local() gave.
  [[nodiscard]] Result<RemoteMemory> on(const ConnectionAddress& peer) const;

  /// The same for a peer that is connected by other means. Cannot notice that the peer was started
  /// anew.
  [[nodiscard]] Result<RemoteMemory> on(const std::array<std::uint8_t, 16>& gid) const;

  /// Checks that the process that `peer` leads to made the key, and that the key has not expired.
  /// Errors: as on().
  [[nodiscard]] Result<void> check(const ConnectionAddress& peer) const;

 private:
  explicit RemoteKey(std::shared_ptr<const MemoryKeyInfo> info) noexcept;

  std::shared_ptr<const MemoryKeyInfo> state_;
};

}  // namespace hbmwire
