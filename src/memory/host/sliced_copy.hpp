// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::memory::host {

/// A copy by the CPU, of some hundred KiB whenever it is asked, so that who asks gets to other
/// things in between.
class SlicedCopy final : public PendingCopy::Work {
 public:
  /// Which of both is another process' memory, whose pages this one has yet to map.
  struct Foreign {
    bool from = false;
    bool to = false;
  };

  /// Both of one length. `guarded`: one of both is the application's, which may have unmapped or
  /// truncated it.
  SlicedCopy(std::span<const std::byte> from, std::span<std::byte> to, Foreign foreign,
             bool guarded = false) noexcept
      : from_(from), to_(to), foreign_(foreign), guarded_(guarded) {}

  SlicedCopy(const SlicedCopy&) = delete;
  SlicedCopy& operator=(const SlicedCopy&) = delete;

  /// Copies what is left, as an engine does whom nobody asks any more.
  ~SlicedCopy() override;

  /// Errors: Stage::copy: another process' pages are not to be had, or the application's are gone.
  Result<bool> poll() override;

 private:
  std::span<const std::byte> from_;  // of both, what is left
  std::span<std::byte> to_;
  Foreign foreign_;
  bool guarded_;
};

}  // namespace hbmwire::memory::host
