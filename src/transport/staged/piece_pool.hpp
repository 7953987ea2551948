// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::transport {

/// Pieces of host memory that a NIC and devices' engines reach. One thread at a time.
class PiecePool {
 public:
  // An engine's start-up and a network's round trip are lost in a piece of some hundred KiB, and
  // few of them are enough to keep both busy.
  static constexpr std::uint64_t kPieceBytes = 512ULL << 10;
  static constexpr std::uint32_t kPieces = 16;

  /// `nic`: null where none moves the pieces. Errors: Stage::allocate, register_memory.
  static Result<PiecePool> create(const Context& context, const Nic* nic, std::uint32_t pieces,
                                  Access access);

  PiecePool(PiecePool&&) noexcept = default;
  PiecePool(const PiecePool&) = delete;
  PiecePool& operator=(const PiecePool&) = delete;
  PiecePool& operator=(PiecePool&&) = delete;
  ~PiecePool();

  /// Pins the pieces for the engine of `device`, once. Where that can't be, copies take the way of
  /// other host memory, and the log says why.
  void pin_for(MemoryDomain& device) noexcept;

  /// Null: all are in use.
  [[nodiscard]] std::byte* take() noexcept;

  void give_back(std::byte* piece) noexcept { free_.push_back(piece); }

  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }

  [[nodiscard]] std::uint32_t local_key() const noexcept { return local_key_; }

  [[nodiscard]] std::uint32_t remote_key() const noexcept { return remote_key_; }

 private:
  PiecePool(Region memory, const Nic* nic, std::uint32_t pieces);

  [[nodiscard]] std::span<std::byte> bytes() const;

  Region memory_;
  std::uint32_t local_key_ = 0;
  std::uint32_t remote_key_ = 0;
  std::vector<std::byte*> free_;
  std::vector<std::weak_ptr<MemoryDomain>> asked_;  // pin_for(): pieces keep no device open
};

}  // namespace hbmwire::transport
