// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "emulation/nic/memory/backing.hpp"
#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

/// Facts that a sender has found out about its responder and about regions, with the values that
/// tell whether they are still true (queue/sender_express.cpp). Guarded by the sender's mutex.
struct alignas(64) ExpressLane {
  /// An MR that was looked up and may be used. The facts stay true as long as its record has the
  /// same key and serial.
  struct Region {
    const MrRecord* mr = nullptr;  // null: no region, and `length` is 0
    std::uint64_t serial = 0;
    std::uint64_t first = 0;  // the address that requests use for the first byte
    std::uint64_t length = 0;
    std::uint64_t shift = 0;  // from that address to the one in this process, or in foreign_pid's
    std::uint32_t key = 0;
    std::int32_t foreign_pid = 0;  // 0: the memory is mapped in this process

    /// Whether this is the region of key `wanted` and has all the bytes, at least one.
    [[nodiscard, gnu::always_inline]] bool serves(std::uint32_t wanted, std::uint64_t address,
                                                  std::uint64_t bytes) const {
      const MrRecord* const record = mr;
      const std::uint64_t known = serial;
      std::uint64_t end = 0;
      return wanted == key && !__builtin_add_overflow(address - first, bytes, &end) &&
             end <= length && record->key.load(std::memory_order_acquire) == wanted &&
             record->serial == known;
    }

    [[nodiscard]] std::uint64_t at(std::uint64_t address) const { return address + shift; }
  };

  /// The use that a region was looked up for. The first two serve WRITEs, which find all that they
  /// need in two cache lines.
  enum Use : std::uint8_t { sent, written, received, fetched, filled };

  static constexpr std::size_t kUses = 5;

  /// Null: the members below are not valid, or the sender has waiting requests or traffic that its
  /// collector does not know of.
  QpRecord* responder = nullptr;
  LifeSign* life = nullptr;      // the sign of life of its owner
  std::uint64_t readiness = 0;   // QpRecord::readiness when the lane was opened, in RTS
  std::uint32_t conditions = 0;  // Header::conditions when the lane was opened
  std::uint32_t responder_owner = 0;
  std::array<Region, kUses> regions;

  std::array<std::shared_ptr<Backing>, kUses> backings;  // keep peers' memory mapped
};

static_assert(offsetof(ExpressLane, regions) + 2 * sizeof(ExpressLane::Region) <= 128);

}  // namespace hbmwire::emulation::nic
