// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/memory.hpp"

namespace hbmwire::transport {

/// Memory of a receive to which its sender was asked to write.
struct TcpWindow {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  const Allocation* device = nullptr;  ///< null: the CPU writes it
};

/// The needs of a TcpLink from its endpoint.
class TcpUser {
 public:
  /// The peer's name, for errors.
  [[nodiscard]] virtual const std::string& peer() const noexcept = 0;

  // --- the socket: TcpLink::progress() is called once it is ready

  /// Errors: Stage::connect.
  virtual Result<void> watch(int fd) = 0;

  /// Also once there is room to send again, or not.
  virtual void watch_room(bool wanted) noexcept = 0;
  virtual void stop_watching() noexcept = 0;

  // --- what has happened

  /// A thread may wait for it.
  virtual void note_event() noexcept = 0;

  /// The endpoint has to look soon: at TcpLink::fault(), or whether its end goes on.
  virtual void look_soon() noexcept = 0;

  /// A device's engine is at a copy of the link's, and no more. The worker goes on polling as long
  /// as one is.
  virtual void begin_engine() noexcept = 0;
  virtual void end_engine() noexcept = 0;

  // --- memory

  /// Nothing: `key` was never told to a peer, or the receive is over.
  [[nodiscard]] virtual std::optional<TcpWindow> window(std::uint64_t key) const noexcept = 0;

  /// A window's memory can't be written any more: its receive fails with `why`.
  virtual void lose_window(std::uint64_t key, const Error& why) noexcept = 0;

  /// A piece of host memory, wire::kMaxTcpPayload long, for what the engine of `device` (or null)
  /// moves; null: there is none now.
  [[nodiscard]] virtual std::byte* take_piece(MemoryDomain* device) noexcept = 0;
  virtual void give_back(std::byte* piece) noexcept = 0;

 protected:
  TcpUser() = default;
  TcpUser(const TcpUser&) = default;
  TcpUser& operator=(const TcpUser&) = default;
  ~TcpUser() = default;
};

}  // namespace hbmwire::transport
