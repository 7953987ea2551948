// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"

#include "base/alarm.hpp"
#include "base/forks.hpp"
#include "registration/exports.hpp"
#include "registration/region_state.hpp"

namespace hbmwire::detail {

/// What a key's own registrations need for as long as they are there. Not the region's: that one
/// would stay open to whoever holds its keys.
struct KeyMemory {
  Allocation allocation;
  DmabufRange dmabuf;  // .fd is null for host memory
};

/// A key, and what is valid as long as it is: registrations of its own, or the region. Destroyed in
/// reverse, so that nothing rings any more, then nothing moves in this process, then MRs, dma-buf,
/// allocation.
struct MemoryKeyState {
  /// A key of [address, address + length_bytes) of `region`, with registrations of its own. Errors:
  /// Stage::register_memory. May throw std::bad_alloc.
  static Result<std::unique_ptr<MemoryKeyState>> of_part(const RegionState& region,
                                                         std::uint64_t address,
                                                         std::uint64_t length_bytes, Access access);

  /// For a key that has registrations of its own.
  [[nodiscard]] std::uint32_t remote_key_on(const NicState& nic) const noexcept;

  /// Registers what the key says with each NIC of `region`, and writes their remote keys into
  /// `info`; with each or with none.
  Result<void> register_own(const RegionState& region);

  /// Lets those find the memory that move it in this process, until end().
  void export_memory(const Allocation& allocation,
                     std::optional<ExportedMemory::Clock::time_point> expires);

  /// Ends what those have under way, and deregisters what is the key's own. When it fails, what is
  /// left can be tried again.
  /// `waits`: for other processes that are at the memory.
  Result<void> end(bool waits = true);

  /// The same where nobody can be told of a failure: it is logged.
  void expire() noexcept;

  MemoryKeyInfo info;
  std::vector<std::byte> bytes;
  bool own = false;
  std::atomic<bool> ended{false};

  std::optional<Region> region;  // whose registration the key names, unless it has its own

  std::mutex mutex;  // of `memory` and `registrations`
  std::optional<KeyMemory> memory;
  std::vector<Registration> registrations;

  Export exported;
  MadeHere made;
  Alarm alarm;
};

}  // namespace hbmwire::detail
