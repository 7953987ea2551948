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

/// A run of bytes: here, or in another process (foreign_pid) when it can't be mapped.
struct Segment {
  std::uint64_t address;
  std::uint64_t length;
  pid_t foreign_pid;
  std::uint32_t posted_mr;  // index of the MR, if what its NIC writes there is to be flushed
  bool relaxed;             // writes land there in any order
};

/// Bytes that no NIC posts and that land in order.
constexpr Segment plain_segment(std::uint64_t address, std::uint64_t length,
                                pid_t foreign_pid = 0) {
  return {address, length, foreign_pid, 0, false};
}

/// A message's scatter or gather list; zero-length elements are not kept.
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

/// Where one sender's large messages began lately. What is not written again before the caches have
/// forgotten it should not go through them: stores past them need no read of the line first.
class RecentTargets {
 public:
  /// Notes that `length` bytes from `address` on are written. False: too much was written since
  /// that began there last, or it never did; while little was written at all everything is cached.
  bool are_cached(std::uint64_t address, std::uint64_t length);

 private:
  /// Of target and source together twice as much: what stays in the caches next to a core.
  static constexpr std::uint64_t kCachedBytes = 8ULL << 20U;

  struct Entry {
    std::uint64_t address = 0;
    std::uint64_t written = 0;  // as written_, when it was
  };

  // Made by the first large message; most of many queue pairs never have one.
  std::unique_ptr<std::array<Entry, 64>> entries_;
  std::uint64_t written_ = 0;  // in messages that were asked about
};

/// Copies min(to.bytes(), from.bytes()) bytes; at most one of the two lists is foreign. Returns 0
/// or errno (ESRCH: that process is gone; EFAULT: its memory is). The last bytes become visible
/// last: programs poll them in memory. `recent`: of the sender, whose mutex is held; or null.
int move_bytes(const SegmentList& to, const SegmentList& from, RecentTargets* recent = nullptr);

/// Bytes that this process has copied.
class CopyCount {
 public:
  /// Those since the first call, which begins to count.
  static std::uint64_t begin();

  static void add(std::uint64_t bytes) noexcept {
    if (counting_.load(std::memory_order_relaxed)) [[unlikely]]
      bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  static std::atomic<bool> counting_;
  static std::atomic<std::uint64_t> bytes_;
};

/// Whether no byte of two ranges is one of both.
inline bool are_apart(std::uint64_t to, std::uint64_t from, std::uint64_t length) {
  return to + length <= from || from + length <= to;
}

/// Ranges of any kind, not counted. memcpy may store the end of a block before its middle; a NIC
/// writes in order, and programs rely on it.
void copy_in_order(std::uint64_t to, std::uint64_t from, std::uint64_t length,
                   RecentTargets* recent);

/// The same as move_bytes() for two plain ranges here.
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
  } else if (length - kWord <= kSmall - kWord && are_apart(to, from, length) &&
             !FaultPlan::plans(FaultRule::Point::step)) {
    copy_small(target, source, length);
  } else {
    copy_in_order(to, from, length, recent);
  }
}

/// The same from here into another process. 0 or errno.
int move_there(pid_t pid, std::uint64_t to, std::uint64_t from, std::uint64_t length);

/// The same from another process to here.
int move_from(pid_t pid, std::uint64_t to, std::uint64_t from, std::uint64_t length);

/// Flips the lowest bit of byte `offset` of a list (a fault plan's doing).
int flip_bit(const SegmentList& list, std::uint64_t offset);

}  // namespace hbmwire::emulation::nic
