// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>

#include "emulation/nic/state/limits.hpp"

namespace hbmwire::emulation::nic {

/// A run of bytes: here, or in another process (foreign_pid) when it can't be mapped.
struct Segment {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  pid_t foreign_pid = 0;
  std::uint32_t posted_mr = 0;  // index of the MR, if what its NIC writes there is to be flushed
  bool relaxed = false;         // writes land there in any order
};

/// A message's scatter or gather list; zero-length elements are not kept.
class SegmentList {
 public:
  void add(const Segment& segment) {
    if (segment.length == 0) return;
    segments_[count_++] = segment;
    bytes_ += segment.length;
    posted_ |= segment.posted_mr;
    relaxed_ = relaxed_ || segment.relaxed;
  }

  [[nodiscard]] std::span<const Segment> view() const { return {segments_.data(), count_}; }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// Whether any of it is in the memory of a card that needs flushes (memory/posting.hpp).
  [[nodiscard]] bool posted() const { return posted_ != 0; }

  [[nodiscard]] bool relaxed() const { return relaxed_; }

 private:
  std::array<Segment, kMaxSge + 1> segments_;  // one more: a datagram has a header
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t posted_ = 0;
  bool relaxed_ = false;
};

/// Copies min(to.bytes(), from.bytes()) bytes; at most one of the two lists is foreign. Returns 0
/// or errno (ESRCH: that process is gone; EFAULT: its memory is). The last bytes become visible
/// last: programs poll them in memory.
int move_bytes(const SegmentList& to, const SegmentList& from);

/// Flips the lowest bit of byte `offset` of a list (a fault plan's doing).
int flip_bit(const SegmentList& list, std::uint64_t offset);

}  // namespace hbmwire::emulation::nic
