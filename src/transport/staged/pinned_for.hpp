// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::transport {

/// Which devices' engines some host memory is pinned for. It goes before the memory does.
/// Move-only, one thread at a time.
class PinnedFor {
 public:
  explicit PinnedFor(std::span<std::byte> memory) noexcept : memory_(memory) {}

  PinnedFor(PinnedFor&&) noexcept = default;
  PinnedFor(const PinnedFor&) = delete;
  PinnedFor& operator=(const PinnedFor&) = delete;
  PinnedFor& operator=(PinnedFor&&) = delete;
  ~PinnedFor();

  /// Pins it for the engine of `device`, once. Where that can't be, copies take the way of other
  /// host memory, and the log says why.
  void pin_for(MemoryDomain& device) noexcept;

 private:
  std::span<std::byte> memory_;
  std::vector<std::weak_ptr<MemoryDomain>> asked_;  // it keeps no device open
};

}  // namespace hbmwire::transport
