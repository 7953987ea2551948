// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire {

/// Copies by a device's engine. Each one waits until earlier writes of NICs are visible. They begin
/// in the order in which they were started. One thread at a time.
class FlushedCopies {
 public:
  /// One of the two spans is empty: `from` of a read, `to` of a write.
  struct Request {
    std::uint64_t address = 0;
    std::span<const std::byte> from;
    std::span<std::byte> to;
  };

  /// `flush` may be complete already. The copy holds `keep` until it ends; `keep` must keep
  /// `domain` and this object alive.
  Result<PendingCopy> start(MemoryDomain& domain, const Request& request, PendingCopy flush,
                            std::shared_ptr<const void> keep);

 private:
  class Copy;

  /// A requested copy. It waits for its flush, and then for the device's engine.
  struct Step {
    MemoryDomain* domain = nullptr;
    Request request;
    PendingCopy flush;
    std::optional<Result<PendingCopy>> copy;  // set once the copy has begun or failed to
  };

  /// Begins the copies whose flush is complete, in order.
  void drive();

  std::deque<std::shared_ptr<Step>> waiting_;
};

}  // namespace hbmwire
