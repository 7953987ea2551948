// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::transport {

/// Pins some host memory for devices' engines, and remembers for which ones. Destroy it before the
/// memory. Move-only; one thread at a time.
class PinnedFor {
 public:
  explicit PinnedFor(std::span<std::byte> memory) noexcept : memory_(memory) {}

  PinnedFor(PinnedFor&&) noexcept = default;
  PinnedFor(const PinnedFor&) = delete;
  PinnedFor& operator=(const PinnedFor&) = delete;
  PinnedFor& operator=(PinnedFor&&) = delete;
  ~PinnedFor();

  /// Pins the memory for the engine of `device`, once. If that fails, copies work as with any other
  /// host memory, and the log says why.
  void pin_for(MemoryDomain& device) noexcept;

 private:
  std::span<std::byte> memory_;
  std::vector<std::weak_ptr<MemoryDomain>> asked_;  // weak: it keeps no device open
};

}  // namespace hbmwire::transport
