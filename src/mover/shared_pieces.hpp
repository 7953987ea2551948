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

/// Pieces of host memory through which what is staged at both ends goes: this end's, which belong
/// to its endpoint and its peer moves, and the peer's. Between ends on one machine both have them
/// mapped, so that nothing carries bytes from a piece to another one (docs/adr/0026).
class SharedPieces {
 public:
  /// What is shorter goes over TCP as fast. Bytes.
  static constexpr std::uint64_t kOverTcpFrom = 64ULL << 10;

  explicit SharedPieces(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  SharedPieces(const SharedPieces&) = delete;
  SharedPieces& operator=(const SharedPieces&) = delete;
  ~SharedPieces() = default;

  /// Whether the ends may map each other's: both are on one machine, and this one's policy admits
  /// staging.
  void admit(bool may) noexcept { admitted_ = may; }

  /// Whether they are tried over TCP in place of its frames.
  [[nodiscard]] bool carry(const RegionState& here, const RemoteRegionState& there,
                           std::uint64_t bytes) const noexcept;

  /// Makes this end's, once, and has the peer map them. Errors: Stage::allocate, register_memory.
  Result<void> open();

  /// This end's, behind open().
  [[nodiscard]] transport::PiecePool& own() noexcept { return *own_; }

  /// How `transfer` goes, which is tried by them. False: the peer has yet to say.
  bool settle(TransferState& transfer) const noexcept;

  /// Whether something waits for the peer's word.
  [[nodiscard]] bool awaited() const noexcept;

  void on(const wire::SharePieces& message) noexcept;
  void on(const wire::PiecesShared& message) noexcept;

  /// What the peer calls [address, address + length_bytes) of its pieces; null: it is not mapped.
  [[nodiscard]] std::byte* find(std::uint64_t address, std::uint64_t length_bytes) const noexcept {
    return peers_ ? peers_->find(address, length_bytes) : nullptr;
  }

  /// As PinnedFor::pin_for(), of the peer's.
  void pin_for(MemoryDomain& device) noexcept { peers_->pin_for(device); }

 private:
  enum class Told : std::uint8_t { nothing, asked, mapped, refused };

  EndpointState& endpoint_;
  bool admitted_ = false;
  bool asked_here_ = false;  // by the peer
  Told told_ = Told::nothing;
  std::optional<transport::PiecePool> own_;
  std::optional<transport::PeerPieces> peers_;
};

}  // namespace hbmwire::detail
