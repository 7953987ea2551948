// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/endpoint.hpp"

#include "context/path_bits.hpp"
#include "endpoint/remote_region_state.hpp"

namespace hbmwire::detail {

/// Counts writes by an endpoint's NIC to memory that engines copy, too. Engines see such a write
/// only after a READ behind it is over (docs/adr/0005).
class EngineWrites {
 public:
  /// Counts a write to `region`, if engines copy that memory, too.
  void note(const RemoteRegionState& region) noexcept {
    if (is_by_engine(region)) ++written_;
  }

  /// Counts a prepared list that writes to such memory.
  void note_list() noexcept { ++written_; }

  /// How many writes there have been.
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }

  /// How many of them are visible.
  [[nodiscard]] std::uint64_t flushed() const noexcept { return flushed_; }

  /// Makes the first `writes` of them count as visible.
  void note_flush(std::uint64_t writes) noexcept { flushed_ = writes; }

  /// Whether engines can be made to see writes to `region`.
  [[nodiscard]] bool can_be_flushed(const RemoteRegionState& region) const noexcept {
    return !is_by_nic(region.path) || written_ == flushed_ ||
           has(region.access, Access::remote_read) || region.type == MemoryType::host;
  }

 private:
  std::uint64_t written_ = 0;
  std::uint64_t flushed_ = 0;
};

}  // namespace hbmwire::detail
