// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hbmwire/buffer.hpp"

#include "tools/common/pattern.hpp"
#include "tools/common/session.hpp"

namespace hbmwire::tools {

/// A part of the buffer.
struct Window {
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// Processes a buffer's contents from the host, whatever memory holds them. Uses only two chunks of
/// host memory, over and over.
class Staging {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{4} << 20;

  Staging(Buffer& buffer, Session& session);

  /// Writes the pattern. poison() writes bytes that all differ from it; verify() compares with it.
  Outcome<void> fill(const Window& window, const Pattern& pattern);
  Outcome<void> poison(const Window& window, const Pattern& pattern);
  Outcome<Comparison> verify(const Window& window, const Pattern& pattern);

  /// In one pass, compares `from` with `pattern`, doubles each integer, and writes the result to
  /// `to_offset_bytes`.
  Outcome<Comparison> verify_and_double(const Window& from, const Pattern& pattern,
                                        std::uint64_t to_offset_bytes);

  /// The first bytes of the window that was last written or read.
  [[nodiscard]] std::span<const std::byte> head() const noexcept { return head_; }

 private:
  template <class Step>
  Outcome<void> each_chunk(const Window& window, Step step);
  Outcome<Comparison> compare_chunks(const Window& from, const Pattern& pattern,
                                     const std::uint64_t* double_to);
  void keep_head(std::uint64_t offset_bytes, std::span<const std::byte> chunk);

  Buffer* buffer_;
  Session* session_;
  std::vector<std::byte> chunk_;
  std::vector<std::byte> expected_;
  std::vector<std::byte> head_;
};

}  // namespace hbmwire::tools
