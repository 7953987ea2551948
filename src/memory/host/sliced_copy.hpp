// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::memory::host {

/// A copy by the CPU. Each poll() copies some hundred KiB, so that the caller can do other work in
/// between.
class SlicedCopy final : public PendingCopy::Work {
 public:
  /// Which of the two is another process's memory, whose pages this process has yet to map.
  struct Foreign {
    bool from = false;
    bool to = false;
  };

  /// Both must have the same length. `guarded`: one of the two is the application's, which may have
  /// unmapped or truncated it.
  SlicedCopy(std::span<const std::byte> from, std::span<std::byte> to, Foreign foreign,
             bool guarded = false) noexcept
      : from_(from), to_(to), foreign_(foreign), guarded_(guarded) {}

  SlicedCopy(const SlicedCopy&) = delete;
  SlicedCopy& operator=(const SlicedCopy&) = delete;

  /// Copies the rest: a copy that was started must complete, as with a device's engine.
  ~SlicedCopy() override;

  /// Errors: Stage::copy (another process's pages cannot be had, or the application's are gone).
  Result<bool> poll() override;

 private:
  std::span<const std::byte> from_;  // the rest, in both spans
  std::span<std::byte> to_;
  Foreign foreign_;
  bool guarded_;
};

}  // namespace hbmwire::memory::host
