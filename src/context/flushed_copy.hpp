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

/// Copies by a device's engine, each of which waits until what NICs wrote before is there. They
/// begin in the order in which they were started. One thread at a time.
class FlushedCopies {
 public:
  /// One of the two spans is empty.
  struct Request {
    std::uint64_t address = 0;
    std::span<const std::byte> from;
    std::span<std::byte> to;
  };

  /// `flush` may be complete already. `keep` is held as long as the copy is; it must keep `domain`
  /// and this object alive.
  Result<PendingCopy> start(MemoryDomain& domain, const Request& request, PendingCopy flush,
                            std::shared_ptr<const void> keep);

 private:
  class Copy;

  struct Step {
    MemoryDomain* domain = nullptr;
    Request request;
    PendingCopy flush;
    std::optional<Result<PendingCopy>> copy;  // once it has begun, or has failed to
  };

  /// Begins what can begin.
  void drive();

  std::deque<std::shared_ptr<Step>> waiting_;
};

}  // namespace hbmwire
