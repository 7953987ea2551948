// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "hbmwire/memory_domain.hpp"

#include "transport/staged/peer_pieces.hpp"
#include "transport/staged/piece_pool.hpp"
#include "wire/control_messages.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct RegionState;
struct RemoteRegionState;
struct TransferState;

/// Pieces of host memory for transfers that are staged at both ends: this end's pieces, to and from
/// which the peer moves bytes, and the peer's. If both ends are on one machine, both have mapped
/// all pieces, so that no copy from piece to piece is needed (docs/adr/0026).
class SharedPieces {
 public:
  /// Transfers of fewer bytes do not try pieces, since they are as fast in frames over TCP.
  static constexpr std::uint64_t kOverTcpFrom = 64ULL << 10;

  explicit SharedPieces(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  SharedPieces(const SharedPieces&) = delete;
  SharedPieces& operator=(const SharedPieces&) = delete;
  ~SharedPieces() = default;

  /// Sets whether the ends may map each other's pieces: both are on one machine, and this end's
  /// policy admits staging.
  void admit(bool may) noexcept { admitted_ = may; }

  /// Whether to try pieces for this transfer over TCP, in place of frames.
  [[nodiscard]] bool may_carry(const RegionState& here, const RemoteRegionState& there,
                               std::uint64_t bytes) const noexcept;

  /// Makes this end's pieces, once, and lets the peer map them. Errors: Stage::allocate,
  /// register_memory.
  Result<void> open();

  /// This end's pieces, after open().
  [[nodiscard]] transport::PiecePool& own() noexcept { return *own_; }

  /// Decides how `transfer`, which tries pieces, goes. False: the peer has yet to answer.
  bool settle(TransferState& transfer) const noexcept;

  /// Whether a transfer waits for the peer's answer.
  [[nodiscard]] bool awaited() const noexcept;

  /// The peer shares its pieces, or has answered whether it could map this end's.
  void on(const wire::SharePieces& message) noexcept;
  void on(const wire::PiecesShared& message) noexcept;

  /// Where this process has mapped [address, address + length_bytes) of the peer's pieces; null: it
  /// has not. The address is the peer's.
  [[nodiscard]] std::byte* find(std::uint64_t address, std::uint64_t length_bytes) const noexcept {
    return peers_ ? peers_->find(address, length_bytes) : nullptr;
  }

  /// Pins the peer's pieces for the engine of `device`, where that makes copies faster.
  void pin_for(MemoryDomain& device) noexcept { peers_->pin_for(device); }

 private:
  enum class Told : std::uint8_t { nothing, asked, mapped, refused };

  EndpointState& endpoint_;
  bool admitted_ = false;
  bool asked_here_ = false;  // the peer has offered its pieces
  Told told_ = Told::nothing;
  std::optional<transport::PiecePool> own_;
  std::optional<transport::PeerPieces> peers_;
};

}  // namespace hbmwire::detail
