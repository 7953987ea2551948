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

/// Memory keys: bytes by which a process lets another one reach a region, by any of its NICs. Their
/// contents, and which part of them the NIC enforces: docs/memory-keys.md.
namespace hbmwire {

class Connection;
struct ConnectionAddress;

/// Where a process of the same node gets the dma-buf of a region: a value that travels in a memory
/// key.
struct AttachAddress {
  std::string socket;  ///< name of an abstract socket, unix(7); at most 100 bytes
  std::array<std::uint8_t, 16> secret{};  ///< random: who has it may attach
  bool operator==(const AttachAddress&) const = default;
};

/// The range, the rights and the lifetime of a new key.
struct MemoryKeyOptions {
  std::uint64_t offset_bytes = 0;                  ///< from the region's address on
  std::optional<std::uint64_t> length_bytes = {};  ///< empty: all behind the offset

  /// Access::remote_write, remote_read, or both; empty: the region's. If the region is itself open
  /// to peers, no more than the region allows. If it is not (Access::none, local_write), anything,
  /// and then its memory is reached by its keys alone.
  std::optional<Access> access = {};

  bool revocable = false;  ///< MemoryKey::revoke() will be called
  /// From now on: more than 0, at most 100 years. Empty or nanoseconds::max(): never.
  std::optional<std::chrono::nanoseconds> expires_after = {};
  std::optional<AttachAddress> attach = {};  ///< for processes of the same node
};

/// One NIC's way to the memory of a key.
struct MemoryKeyNic {
  std::array<std::uint8_t, 16> gid{};  ///< of its port
  std::uint32_t remote_key = 0;        ///< by which the NIC knows the memory

  bool operator==(const MemoryKeyNic&) const = default;
};

/// The contents of a key. A value.
struct MemoryKeyInfo {
  MemoryType type = MemoryType::host;  ///< of the memory
  std::uint64_t address = 0;           ///< of its first byte, at the exporter
  std::uint64_t length_bytes = 0;      ///< at least 1
  Access access = Access::none;        ///< remote_write, remote_read, remote_atomic, or several
  Path path = Path::host;              ///< by which the exporter's NICs reach it; staged: none does
  std::uint64_t incarnation = 0;       ///< of the exporting process, ConnectionAddress::incarnation
  /// When it expires, by the exporter's clock; empty: never.
  std::optional<std::chrono::sys_time<std::chrono::nanoseconds>> expires = {};
  std::uint64_t token = 0;  ///< never 0: by which the exporting process itself finds the memory
  /// In the region's order; no GID twice. None where no NIC reaches the memory.
  std::vector<MemoryKeyNic> nics = {};
  std::optional<AttachAddress> attach = {};

  bool operator==(const MemoryKeyInfo&) const = default;
};

namespace detail {
struct MemoryKeyState;
}

/// A key to a region, as its exporter has it. While it lives, a peer that knows bytes() may do what
/// the key allows, by any NIC of the region, and the memory stays allocated and registered. Where
/// it asks for less than the region's own registration gives, or can end earlier, it has
/// registrations of its own (docs/adr/0016), so that the NICs themselves enforce range, access and
/// end, whatever software the peer uses. Move-only; its functions may be called from many threads.
class HBMWIRE_API MemoryKey {
 public:
  /// Errors, all of Stage::register_memory: Errc::invalid_argument (range, access, expiry or attach
  /// address, two NICs with one GID), or as Nic::register_memory(); nothing is registered then.
  static Result<MemoryKey> pack(const Region& region, const MemoryKeyOptions& options = {});

  MemoryKey(MemoryKey&&) noexcept;
  MemoryKey& operator=(MemoryKey&&) noexcept;
  MemoryKey(const MemoryKey&) = delete;
  MemoryKey& operator=(const MemoryKey&) = delete;

  /// Revokes the key's own registrations, and its token, by which this process moves bytes. A key
  /// to the region's own registration lets go of the region.
  ~MemoryKey();

  /// The key, to be sent to the peer by any means. Everyone who reads these bytes has the key.
  /// Valid as long as this object.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;

  /// The contents of the key. Valid as long as this object.
  [[nodiscard]] const MemoryKeyInfo& info() const noexcept;

  /// Whether it has registrations of its own, so that revoke() can take it back.
  [[nodiscard]] bool revocable() const noexcept;

  /// False when it was revoked, or has expired.
  [[nodiscard]] bool valid() const noexcept;

  /// Takes the key back: when this returns, no NIC accepts it any more, and no byte moves by it.
  /// Waits for work with it that NICs, engines of this process, and other processes of this node
  /// have begun. A second call, or one after the expiry, does nothing. Errors: Errc::not_supported
  /// (not revocable()); Errc::timed_out (Hint::peer_unsettled): a process of this node was stopped
  /// in the middle of a copy by Path::shared_memory, and did not go on within
  /// EndpointOptions::peer_timeout: the key has ended, but that copy is finished when it goes on;
  /// Stage::register_memory with the errno of ibv_dereg_mr(3), after which the key may still be
  /// valid; call again.
  Result<void> revoke();

 private:
  explicit MemoryKey(std::unique_ptr<detail::MemoryKeyState> state) noexcept;

  std::unique_ptr<detail::MemoryKeyState> state_;
};

/// A key to memory of a peer, as the peer has it. A value: copies share its contents, and a move
/// copies, so that each object is valid. Its functions may be called from many threads.
class HBMWIRE_API RemoteKey {
 public:
  /// Reads the bytes of a key, which may come from anywhere: exactly what MemoryKey::bytes() gave,
  /// or an error. It does not check who made them. Errors: Errc::protocol, Stage::connect.
  static Result<RemoteKey> unpack(std::span<const std::byte> bytes);

  RemoteKey(const RemoteKey&) noexcept = default;
  RemoteKey& operator=(const RemoteKey&) noexcept = default;
  ~RemoteKey() = default;

  /// The contents of the key. Valid as long as this object.
  [[nodiscard]] const MemoryKeyInfo& info() const noexcept;

  /// The memory for Connection::post_write() and post_read(): all of the key's memory, by the NIC
  /// that the connection leads to. A part of it: RemoteMemory::slice(). Errors, all of Stage::post:
  /// Errc::peer_failed (the connection leads to another process than the one that made the key: it
  /// was started anew), Errc::permission_denied (expired, by this machine's clock), Errc::not_found
  /// (the key does not name that NIC), Errc::invalid_argument (not connected).
  [[nodiscard]] Result<RemoteMemory> on(const Connection& connection) const;

  /// The same, by what the peer's Connection::local() gave.
  [[nodiscard]] Result<RemoteMemory> on(const ConnectionAddress& peer) const;

  /// The same for a peer that is connected by other means. It is not noticed when that peer was
  /// started anew.
  [[nodiscard]] Result<RemoteMemory> on(const std::array<std::uint8_t, 16>& gid) const;

  /// Whether the process that `peer` leads to made the key, and it has not expired. Errors: as
  /// on().
  [[nodiscard]] Result<void> check(const ConnectionAddress& peer) const;

 private:
  explicit RemoteKey(std::shared_ptr<const MemoryKeyInfo> info) noexcept;

  std::shared_ptr<const MemoryKeyInfo> state_;
};

}  // namespace hbmwire
