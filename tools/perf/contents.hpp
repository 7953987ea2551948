// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/common/staging.hpp"
#include "tools/perf/layout.hpp"
#include "tools/perf/memory_side.hpp"
#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// The expected place of a message, and the sender's place of it. Both are offsets in bytes in
/// their buffers.
struct Expected {
  std::uint64_t at = 0;
  std::uint64_t from = 0;
  std::uint64_t size_bytes = 0;
};

/// Fills and compares a buffer by the library's own copy, whatever memory it is in. The pattern
/// depends on the place in the buffer, so right bytes in the wrong place count as wrong.
class Contents {
 public:
  Contents(MemorySide& side, Session& session)
      : side_(&side), session_(&session), staging_(side.buffer, session) {}

  /// Selects the pattern of another pass, or of the other side.
  void set_pattern(std::uint32_t seed, std::uint32_t pass) {
    pattern_ = {.seed = seed, .iteration = pass, .tag = Tag::write, .doubled = false};
  }

  /// Writes the pattern to the first `span_bytes` of each area (of every flow of every queue pair)
  /// in the source half. fill_target() does so in the target half, and the poison functions write
  /// bytes that differ from the pattern.
  Outcome<void> fill_source(std::uint64_t span_bytes) {
    return write_areas(0, span_bytes, /*poison=*/false);
  }

  Outcome<void> fill_target(std::uint64_t span_bytes) {
    return write_areas(side_->layout.half_bytes(), span_bytes, /*poison=*/false);
  }

  Outcome<void> poison_source(std::uint64_t span_bytes) {
    return write_areas(0, span_bytes, /*poison=*/true);
  }

  Outcome<void> poison_target(std::uint64_t span_bytes) {
    return write_areas(side_->layout.half_bytes(), span_bytes, /*poison=*/true);
  }

  /// Compares every byte of every place, and adds the results. Fastest if the places ascend.
  Outcome<void> compare(std::span<const Expected> places, Verification& found);

  /// The 8 bytes that the pattern has at offset `from`.
  [[nodiscard]] std::uint64_t word_of_pattern(std::uint64_t from) const;
  /// The 8 bytes that the buffer has at offset `at` now.
  Outcome<std::uint64_t> read_word(std::uint64_t at);
  Outcome<void> write_word(std::uint64_t at, std::uint64_t value);

 private:
  Outcome<void> write_areas(std::uint64_t half_offset, std::uint64_t span_bytes, bool poison);
  Outcome<std::span<const std::byte>> look_at(std::uint64_t at, std::uint64_t length);
  Outcome<void> compare_one(const Expected& place, Verification& found);

  MemorySide* side_;
  Session* session_;
  Staging staging_;
  Pattern pattern_;
  std::vector<std::byte> read_;  // a copy of the buffer from read_at_ on
  std::uint64_t read_at_ = 0;
  std::vector<std::byte> expected_;
};

/// Describes the first fault: "verify: wrong byte ...".
[[nodiscard]] std::string describe_wrong(const Expected& place, const Comparison& wrong);

}  // namespace hbmwire::tools::perf
