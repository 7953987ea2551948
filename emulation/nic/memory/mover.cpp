// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/mover.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "emulation/common/copy_past_caches.hpp"
#include "emulation/common/fault_step.hpp"
#include "emulation/nic/memory/copy.hpp"

namespace hbmwire::emulation::nic {
namespace {

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

/// From this length on it pays to choose how to copy. Shorter ranges use memmove.
constexpr std::uint64_t kLarge = 256ULL << 10U;

void copy_body(std::uint64_t to, std::uint64_t from, std::uint64_t length, RecentTargets* recent) {
  if (length < kLarge || recent == nullptr || !are_apart(to, from, length)) {
    std::memmove(pointer(to), pointer(from), length);
  } else if (recent->note_write(to, length)) {
    copy_through_caches(pointer(to), pointer(from), length);
  } else {
    copy_past_caches(pointer(to), pointer(from), length);
  }
}

constexpr std::size_t kMostRanges = std::size_t{2} * kMaxSge;

/// Ranges in one process. Adjoining ranges are merged, because each range of another process costs
/// the kernel some 100 ns.
class Ranges {
 public:
  void add(std::uint64_t address, std::uint64_t length) {
    if (count() != 0) {
      iovec& last = ranges_[end_ - 1];
      if (address_of(last) + last.iov_len == address) {
        last.iov_len += length;
        return;
      }
    }
    ranges_[end_++] = {pointer(address), length};
  }

  /// Removes bytes from the front.
  void drop(std::size_t bytes) {
    while (count() != 0 && bytes >= ranges_[first_].iov_len) bytes -= ranges_[first_++].iov_len;
    if (count() == 0) {
      first_ = end_ = 0;
    } else {
      ranges_[first_] = {pointer(address_of(ranges_[first_]) + bytes),
                         ranges_[first_].iov_len - bytes};
    }
  }

  [[nodiscard]] std::size_t count() const { return end_ - first_; }

  [[nodiscard]] bool is_full() const { return end_ == ranges_.size(); }

  [[nodiscard]] const iovec* first() const { return &ranges_[first_]; }

 private:
  static std::uint64_t address_of(const iovec& range) {
    return reinterpret_cast<std::uint64_t>(range.iov_base);
  }

  std::array<iovec, kMostRanges> ranges_;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
};

/// Copies between this process and another one, gathered so that a message costs one system call.
class ForeignBatch {
 public:
  int add(const Segment& to, const Segment& from, std::uint64_t length) {
    const bool writes = to.foreign_pid != 0;
    const pid_t pid = writes ? to.foreign_pid : from.foreign_pid;
    const bool differs = here_.count() != 0 && (pid != pid_ || writes != writes_);
    if (differs || here_.is_full() || there_.is_full()) {
      if (const int error = flush(); error != 0) return error;
    }
    pid_ = pid;
    writes_ = writes;
    here_.add(writes ? from.address : to.address, length);
    there_.add(writes ? to.address : from.address, length);
    return 0;
  }

  int flush() {
    const auto call = writes_ ? ::process_vm_writev : ::process_vm_readv;
    while (here_.count() != 0) {
      const ssize_t moved =
          call(pid_, here_.first(), here_.count(), there_.first(), there_.count(), 0);
      if (moved <= 0) return moved == 0 ? EFAULT : errno;
      CopyCount::add(static_cast<std::uint64_t>(moved));
      // The kernel stops early at its limit for a call (2 GiB) and at the first bad page. Go on
      // where it stopped.
      here_.drop(static_cast<std::size_t>(moved));
      there_.drop(static_cast<std::size_t>(moved));
    }
    return 0;
  }

 private:
  Ranges here_;
  Ranges there_;
  pid_t pid_ = 0;
  bool writes_ = false;
};

}  // namespace

bool RecentTargets::note_write(std::uint64_t address, std::uint64_t length) {
  if (entries_ == nullptr) entries_.reset(new (std::nothrow) std::array<Entry, 64>{});
  if (entries_ == nullptr) return true;  // there is no memory for the list
  // The addresses of different large buffers differ in these bits.
  Entry& entry = (*entries_)[(address >> 18U ^ address >> 12U) % entries_->size()];
  const bool known = entry.address == address;
  const std::uint64_t since = written_ - entry.written;
  written_ += length;
  entry = {address, written_};
  if (written_ <= kCachedBytes) return true;
  return known && since + length <= kCachedBytes;
}

std::atomic<bool> CopyCount::counting_{false};
std::atomic<std::uint64_t> CopyCount::bytes_{0};

std::uint64_t CopyCount::begin() {
  counting_.store(true);
  return bytes_.load();
}

void copy_in_order(std::uint64_t to, std::uint64_t from, std::uint64_t length,
                   RecentTargets* recent) {
  constexpr std::uint64_t kTail = 8;
  if (length < kTail) {
    std::memmove(pointer(to), pointer(from), length);
    return;
  }
  std::uint64_t tail = 0;  // read first, because the ranges may overlap
  std::memcpy(&tail, pointer(from + length - kTail), kTail);
  copy_body(to, from, length - kTail, recent);
  keep_store_order();
  fault_step("half_moved");
  std::memcpy(pointer(to + length - kTail), &tail, kTail);
}

namespace {

/// Copies between lists of any shape.
int move_pieces(const SegmentList& to, const SegmentList& from, RecentTargets* recent) {
  const std::span<const Segment> targets = to.view();
  const std::span<const Segment> sources = from.view();
  std::uint64_t left = std::min(to.bytes(), from.bytes());
  std::size_t target_index = 0;
  std::size_t source_index = 0;
  Segment target{};
  Segment source{};
  ForeignBatch batch;
  while (left != 0) {
    if (target.length == 0) target = targets[target_index++];
    if (source.length == 0) source = sources[source_index++];
    const std::uint64_t length = std::min({target.length, source.length, left});
    if (target.foreign_pid != 0 || source.foreign_pid != 0) {
      if (const int error = batch.add(target, source, length); error != 0) return error;
    } else {
      move_here(target.address, source.address, length, recent);
    }
    target.address += length;
    target.length -= length;
    source.address += length;
    source.length -= length;
    left -= length;
  }
  return batch.flush();
}

}  // namespace

int move_bytes(const SegmentList& to, const SegmentList& from, RecentTargets* recent) {
  const std::span<const Segment> targets = to.view();
  const std::span<const Segment> sources = from.view();
  const bool simple = targets.size() == 1 && sources.size() == 1 && targets[0].foreign_pid == 0 &&
                      sources[0].foreign_pid == 0;
  if (!simple) return move_pieces(to, from, recent);
  move_here(targets[0].address, sources[0].address, std::min(to.bytes(), from.bytes()), recent);
  return 0;
}

namespace {

int move_across(const Segment& to, const Segment& from) {
  ForeignBatch batch;
  if (const int error = batch.add(to, from, to.length); error != 0) return error;
  return batch.flush();
}

}  // namespace

int move_there(pid_t pid, std::uint64_t to, std::uint64_t from, std::uint64_t length) {
  return move_across(plain_segment(to, length, pid), plain_segment(from, length));
}

int move_from(pid_t pid, std::uint64_t to, std::uint64_t from, std::uint64_t length) {
  return move_across(plain_segment(to, length), plain_segment(from, length, pid));
}

int flip_bit(const SegmentList& list, std::uint64_t offset) {
  for (const Segment& segment : list.view()) {
    if (offset >= segment.length) {
      offset -= segment.length;
      continue;
    }
    std::uint8_t byte = 0;
    SegmentList here;
    here.add(plain_segment(reinterpret_cast<std::uint64_t>(&byte), 1));
    SegmentList there;
    there.add(plain_segment(segment.address + offset, 1, segment.foreign_pid));
    if (const int error = move_bytes(here, there); error != 0) return error;
    byte ^= 1U;
    return move_bytes(there, here);
  }
  return 0;
}

}  // namespace hbmwire::emulation::nic
