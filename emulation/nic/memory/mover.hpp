// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "emulation/common/faults.hpp"
#include "emulation/nic/memory/copy.hpp"
#include "emulation/nic/state/limits.hpp"

namespace hbmwire::emulation::nic {

/// A run of bytes in this process; or in another one (foreign_pid), if it cannot be mapped here.
struct Segment {
  std::uint64_t address;
  std::uint64_t length;
  pid_t foreign_pid;
  std::uint32_t posted_mr;  // index of the MR if writes there wait for a flush; else 0
  bool relaxed;             // writes land there in any order
};

/// Bytes whose writes land in order and need no flush.
constexpr Segment plain_segment(std::uint64_t address, std::uint64_t length,
                                pid_t foreign_pid = 0) {
  return {address, length, foreign_pid, 0, false};
}

/// A message's scatter or gather list. Elements of length 0 are left out.
class SegmentList {
 public:
  // Not defaulted: `{}` would fill the array with zeros, which costs more than a small message.
  SegmentList() {}  // NOLINT(modernize-use-equals-default)

  void add(const Segment& segment) {
    if (segment.length == 0) return;
    segments_[count_++] = segment;
    bytes_ += segment.length;
    posted_ |= segment.posted_mr;
    relaxed_ = relaxed_ || segment.relaxed;
  }

  [[nodiscard]] std::span<const Segment> view() const { return {segments_.data(), count_}; }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// Whether some of it is in the memory of a card that needs flushes (memory/posting.hpp).
  [[nodiscard]] bool posted() const { return posted_ != 0; }

  [[nodiscard]] bool relaxed() const { return relaxed_; }

 private:
  std::array<Segment, kMaxSge + 1> segments_;  // one more, because a datagram has a header
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t posted_ = 0;
  bool relaxed_ = false;
};

/// Where one sender's large messages began lately. If the caches will have dropped a target before
/// it is written again, stores should bypass the caches: such stores need not read the line first.
class RecentTargets {
 public:
  /// Notes that `length` bytes from `address` on are written. Returns true if they are probably in
  /// the caches: they were written before and little was written since, or little was written at
  /// all. If it returns false, the stores should bypass the caches.
  bool note_write(std::uint64_t address, std::uint64_t length);

 private:
  /// Targets and sources together take twice as much, which fits into the caches next to a core.
  static constexpr std::uint64_t kCachedBytes = 8ULL << 20U;

  struct Entry {
    std::uint64_t address = 0;
    std::uint64_t written = 0;  // `written_` after the message that began at `address`
  };

  // Made by the first large message, because most queue pairs never send one.
  std::unique_ptr<std::array<Entry, 64>> entries_;
  std::uint64_t written_ = 0;  // bytes of all messages noted
};

/// Copies min(to.bytes(), from.bytes()) bytes. At most one of the two lists may be in another
/// process. Returns 0 or an errno (ESRCH: that process is gone; EFAULT: its memory is gone). The
/// last bytes become visible last, because programs poll them in memory. `recent` belongs to the
/// sender, whose mutex is held; or is null.
int move_bytes(const SegmentList& to, const SegmentList& from, RecentTargets* recent = nullptr);

/// Counts the bytes that this process copies.
class CopyCount {
 public:
  /// The bytes since the first call, which starts the counting.
  static std::uint64_t begin();

  static void add(std::uint64_t bytes) noexcept {
    if (counting_.load(std::memory_order_relaxed)) [[unlikely]]
      bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  static std::atomic<bool> counting_;
  static std::atomic<std::uint64_t> bytes_;
};

/// Whether two ranges do not overlap.
inline bool are_apart(std::uint64_t to, std::uint64_t from, std::uint64_t length) {
  return to + length <= from || from + length <= to;
}

/// Copies ranges that may overlap, without counting. It keeps the order that programs rely on: a
/// NIC writes in order, while memcpy may store the end of a block before its middle.
void copy_in_order(std::uint64_t to, std::uint64_t from, std::uint64_t length,
                   RecentTargets* recent);

/// As move_bytes(), for two plain ranges of this process.
[[gnu::always_inline]] inline void move_here(std::uint64_t to, std::uint64_t from,
                                             std::uint64_t length,
                                             RecentTargets* recent = nullptr) {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  auto* const target = reinterpret_cast<void*>(to);
  const auto* const source = reinterpret_cast<const void*>(from);
  CopyCount::add(length);
  if (length == kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, source, kWord);
    std::memcpy(target, &word, kWord);
  } else if (length - kWord <= kSmall - kWord &&  // from kWord to kSmall: below kWord it wraps
             are_apart(to, from, length) && !FaultPlan::plans(FaultRule::Point::step)) {
    copy_small(target, source, length);
  } else {
    copy_in_order(to, from, length, recent);
  }
}

/// As move_bytes(), from this process to another one. Returns 0 or an errno.
int move_there(pid_t pid, std::uint64_t to, std::uint64_t from, std::uint64_t length);

/// As move_bytes(), from another process to this one.
int move_from(pid_t pid, std::uint64_t to, std::uint64_t from, std::uint64_t length);

/// Flips the lowest bit of byte `offset` of a list, for a fault plan. Returns 0 or an errno.
int flip_bit(const SegmentList& list, std::uint64_t offset);

}  // namespace hbmwire::emulation::nic
