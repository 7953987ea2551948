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

/// What a sender has found out about the other side and about regions, and what tells it that all
/// that is still so (queue/sender_express.cpp). Guarded by the sender's mutex.
struct alignas(64) ExpressLane {
  /// An MR that was looked up and may be used. As long as its record has that key and that serial
  /// it is what it was.
  struct Region {
    const MrRecord* mr = nullptr;  // null: `length` is 0
    std::uint64_t serial = 0;
    std::uint64_t first = 0;  // address that requests name, and how many bytes there are
    std::uint64_t length = 0;
    std::uint64_t shift = 0;  // from there to where it is here, or in that process:
    std::uint32_t key = 0;
    std::int32_t foreign_pid = 0;  // 0: here

    /// Whether it is that of `wanted`, and has all the bytes, of which there is one at least.
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

  /// What a region was looked up for. The first two are those of WRITEs, which find all that they
  /// need in two lines of the cache.
  enum Use : std::uint8_t { sent, written, received, fetched, filled };

  static constexpr std::size_t kUses = 5;

  /// Null: what follows is not known, or the sender has something that waits or is to be told of.
  QpRecord* responder = nullptr;
  LifeSign* life = nullptr;      // of its owner
  std::uint64_t readiness = 0;   // as the responder was then, in RTS (QpRecord::readiness),
  std::uint32_t conditions = 0;  // and the fabric (Header::conditions)
  std::uint32_t responder_owner = 0;
  std::array<Region, kUses> regions;

  std::array<std::shared_ptr<Backing>, kUses> backings;  // keep those of other processes here
};

static_assert(offsetof(ExpressLane, regions) + 2 * sizeof(ExpressLane::Region) <= 128);

}  // namespace hbmwire::emulation::nic
