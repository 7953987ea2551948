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

/// The memory that a key's own registrations need during their life. The key does not hold the
/// region instead: the region's registration would stay open to anyone who has the region's keys.
struct KeyMemory {
  Allocation allocation;
  DmabufRange dmabuf;  // .fd is null for host memory
};

/// A memory key, and what must live as long as it: registrations of its own, or the region. Members
/// are destroyed in reverse order. First the alarm goes, then the export to movers of this process,
/// then MRs, dma-buf and allocation.
struct MemoryKeyState {
  /// A key for [address, address + length_bytes) of `region`, with its own registrations. Errors:
  /// Stage::register_memory. May throw std::bad_alloc.
  static Result<std::unique_ptr<MemoryKeyState>> of_part(const RegionState& region,
                                                         std::uint64_t address,
                                                         std::uint64_t length_bytes, Access access);

  /// The key must have its own registrations.
  [[nodiscard]] std::uint32_t remote_key_on(const NicState& nic) const noexcept;

  /// Registers the key's range with each NIC of `region`, and writes the remote keys into `info`.
  /// Registers with all NICs or with none.
  Result<void> register_own(const RegionState& region);

  /// Lets movers in this process find the memory until end().
  void export_memory(const Allocation& allocation,
                     std::optional<ExportedMemory::Clock::time_point> expires);

  /// Waits for the moves that are under way, and removes the key's own registrations. If it fails,
  /// it can be called again. `waits`: whether to wait for other processes that use the memory.
  Result<void> end(bool waits = true);

  /// Ends the key where no caller can receive an error: it logs a failure instead.
  void expire() noexcept;

  MemoryKeyInfo info;
  std::vector<std::byte> bytes;
  bool own = false;  // the key has its own registrations
  std::atomic<bool> ended{false};

  std::optional<Region> region;  // set if the key names the region's registration

  std::mutex mutex;  // guards `memory` and `registrations`
  std::optional<KeyMemory> memory;
  std::vector<Registration> registrations;

  Export exported;
  MadeHere made;
  Alarm alarm;
};

}  // namespace hbmwire::detail
