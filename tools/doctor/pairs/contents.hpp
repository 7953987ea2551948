// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hbmwire/error.hpp"

#include "tools/common/pattern.hpp"

namespace hbmwire::tools::doctor {

/// Fills and compares memory, by the copy that this memory needs. A window is kWindowBytes long and
/// begins at `offset_bytes`.
class Contents {
 public:
  using Write =
      std::function<Result<void>(std::uint64_t offset_bytes, std::span<const std::byte> from)>;
  using Read = std::function<Result<void>(std::uint64_t offset_bytes, std::span<std::byte> to)>;

  Contents(Write write, Read read);

  /// Writes the pattern to a window.
  Result<void> fill(std::uint64_t offset_bytes, const Pattern& pattern);

  /// Writes bytes that all differ from the pattern, so that bytes which never arrive are found.
  Result<void> poison(std::uint64_t offset_bytes, const Pattern& pattern);

  /// Reads a window, and compares it with the pattern.
  Result<Comparison> compare_with(std::uint64_t offset_bytes, const Pattern& pattern);

 private:
  template <class Step>
  Result<void> each_chunk(Step step);

  Write write_;
  Read read_;
  std::vector<std::byte> chunk_;
  std::vector<std::byte> expected_;
};

}  // namespace hbmwire::tools::doctor
