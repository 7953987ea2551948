// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/memory.hpp"

namespace hbmwire::transport {

/// The memory of a receive, to which its sender was asked to write.
struct TcpWindow {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  const Allocation* device = nullptr;  ///< null: the CPU writes it
};

/// The services that a TcpLink needs from its endpoint.
class TcpUser {
 public:
  /// The peer's name, for errors.
  [[nodiscard]] virtual const std::string& peer() const noexcept = 0;

  // --- the socket: when it is ready, the endpoint calls TcpLink::progress()

  /// Watches the socket. Errors: Stage::connect.
  virtual Result<void> watch(int fd) = 0;

  /// Whether to watch for room to send, too.
  virtual void watch_room(bool wanted) noexcept = 0;
  virtual void stop_watching() noexcept = 0;

  // --- events

  /// Something has happened that a thread may be waiting for.
  virtual void note_event() noexcept = 0;

  /// The endpoint must look soon: at TcpLink::fault(), and whether it can go on closing.
  virtual void look_soon() noexcept = 0;

  /// A device's engine begins, or ends, a copy of the link. The worker keeps polling while one is
  /// under way.
  virtual void begin_engine() noexcept = 0;
  virtual void end_engine() noexcept = 0;

  // --- memory

  /// The memory of the receive with this key. No value if `key` was never told to a peer, or if the
  /// receive has ended.
  [[nodiscard]] virtual std::optional<TcpWindow> window(std::uint64_t key) const noexcept = 0;

  /// A window's memory cannot be written any more: its receive fails with `why`.
  virtual void lose_window(std::uint64_t key, const Error& why) noexcept = 0;

  /// A piece of host memory, wire::kMaxTcpPayload bytes long, for bytes that the engine of `device`
  /// moves (null: no engine); returns null if there is none now.
  [[nodiscard]] virtual std::byte* take_piece(MemoryDomain* device) noexcept = 0;
  virtual void give_back(std::byte* piece) noexcept = 0;

 protected:
  TcpUser() = default;
  TcpUser(const TcpUser&) = default;
  TcpUser& operator=(const TcpUser&) = default;
  ~TcpUser() = default;
};

}  // namespace hbmwire::transport
