// SPDX-License-Identifier: MIT
#include "emulation/common/posted_writes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "emulation/common/robust_mutex.hpp"

namespace hbmwire::emulation {

namespace {

constexpr std::uint64_t kMagic = 0x3153'4f50'4d48;  // "HMPOS1", little endian
constexpr std::uint64_t kTableBytes = 64 << 10;

/// A posted range. To take a slot, `end` is stored last; to free it, `end` is set to 0. A slot that
/// is half done is free.
struct Slot {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t nic;
  std::uint32_t padding;

  [[nodiscard]] bool overlaps(std::uint64_t from, std::uint64_t to) const {
    return begin < to && from < end;
  }
};

/// Programs have few ranges in flight. If a program scatters words all over a card, its writes
/// arrive early, which is allowed.
constexpr std::size_t kSlots = 1024;

/// Keeps the compiler from reordering stores, because another process relies on their order after a
/// kill.
void in_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

struct PostedWrites::Table {
  std::uint64_t magic;
  RobustMutex mutex;  // harmless when half done: a half-filled slot is free
  std::array<Slot, kSlots> slots;
};

bool PostedWrites::create(const std::filesystem::path& path, std::uint64_t card_bytes) {
  static_assert(sizeof(Table) <= kTableBytes);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  void* memory = MAP_FAILED;
  if (::ftruncate(fd, static_cast<off_t>(kTableBytes + card_bytes)) == 0)
    memory = ::mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (memory == MAP_FAILED) {
    errno = error;
    return false;
  }
  static_cast<Table*>(memory)->magic = kMagic;
  ::munmap(memory, kTableBytes);
  return true;
}

PostedWrites::PostedWrites(int fd, std::byte* base, std::uint64_t bytes)
    : fd_(fd), base_(base), bytes_(bytes), table_(reinterpret_cast<Table*>(base)) {}

std::shared_ptr<PostedWrites> PostedWrites::map(int fd, std::uint64_t bytes) {
  if (bytes <= kTableBytes) {
    errno = EINVAL;
    return nullptr;
  }
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (static_cast<Table*>(memory)->magic != kMagic) {
    ::munmap(memory, bytes);
    errno = EINVAL;
    return nullptr;
  }
  ::madvise(memory, bytes, MADV_DONTDUMP);  // as large as the card
  return std::shared_ptr<PostedWrites>(
      new PostedWrites(fd, static_cast<std::byte*>(memory), bytes));
}

std::shared_ptr<PostedWrites> PostedWrites::open(const std::filesystem::path& path) {
  struct Known {
    std::mutex mutex;
    std::map<std::pair<dev_t, ino_t>, std::weak_ptr<PostedWrites>> files;
  };

  static auto* const kKnown = new Known;  // never destroyed: threads may still run at exit
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;

  struct stat status {};

  const std::lock_guard guard(kKnown->mutex);
  std::shared_ptr<PostedWrites> found;
  if (::fstat(fd, &status) == 0) {
    // A weak reference suffices: while the file is mapped, its inode cannot be reused.
    auto& entry = kKnown->files[{status.st_dev, status.st_ino}];
    found = entry.lock();
    if (!found) {
      found = map(fd, static_cast<std::uint64_t>(status.st_size));
      entry = found;
      if (found) return found;
    }
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  return found;
}

PostedWrites::~PostedWrites() {
  ::munmap(base_, bytes_);
  ::close(fd_);
}

std::byte* PostedWrites::earlier(std::uint64_t offset) const {
  return base_ + kTableBytes + offset;
}

/// Saves the earlier bytes of those parts of the range that the NIC has not posted yet. The lock is
/// held.
void PostedWrites::keep_earlier(std::uint32_t nic, const Range& range) {
  const std::uint64_t end = range.offset + range.bytes;
  for (std::uint64_t at = range.offset; at < end;) {
    std::uint64_t covered = at;  // the NIC has posted the bytes from `at` to here
    std::uint64_t next = end;    // the first byte behind `at` that it has posted
    for (const Slot& slot : table_->slots) {
      if (slot.nic != nic || slot.end <= at) continue;
      if (slot.begin <= at) {
        covered = std::max(covered, slot.end);
      } else {
        next = std::min(next, slot.begin);
      }
    }
    if (covered == at) std::memcpy(earlier(at), range.memory + (at - range.offset), next - at);
    at = covered == at ? next : covered;
  }
}

void PostedWrites::post(std::uint32_t nic, const Range& range) {
  if (range.bytes == 0 || range.offset > bytes_ - kTableBytes ||
      range.bytes > bytes_ - kTableBytes - range.offset) {
    return;
  }
  const Hold lock(table_->mutex);
  if (!lock.held()) return;  // then the write is visible at once
  std::uint64_t begin = range.offset;
  std::uint64_t end = range.offset + range.bytes;
  // A byte may be posted by one NIC only. The writes of another NIC to it came first, so they
  // arrive.
  for (const Slot& slot : table_->slots) {
    if (slot.nic != nic && slot.overlaps(begin, end)) forget(slot.nic);
  }
  const auto free = [](const Slot& slot) { return slot.end == 0; };
  auto own = std::find_if(table_->slots.begin(), table_->slots.end(), free);
  if (own == table_->slots.end()) {
    for (Slot& slot : table_->slots) slot.end = 0;  // all earlier writes arrive
    own = table_->slots.begin();
  }
  keep_earlier(nic, range);
  // The slot takes over the NIC's ranges that overlap or adjoin this one.
  for (const Slot& slot : table_->slots) {
    const bool touches = slot.end != 0 && slot.nic == nic && slot.begin <= end && begin <= slot.end;
    if (!touches) continue;
    begin = std::min(begin, slot.begin);
    end = std::max(end, slot.end);
  }
  in_order();
  own->nic = nic;
  own->begin = begin;
  in_order();
  own->end = end;
  in_order();
  for (Slot& slot : table_->slots) {
    if (&slot != own && slot.nic == nic && slot.overlaps(begin, end)) slot.end = 0;
  }
}

/// Removes all ranges of a NIC, because PCIe keeps a writer's order.
void PostedWrites::forget(std::uint32_t nic) {
  for (Slot& slot : table_->slots) {
    if (slot.nic == nic) slot.end = 0;
  }
}

// If a stopped process holds the lock, the ranges are removed without it. That process may enter a
// range again when it continues. An engine may then see earlier bytes once more, which is better
// than waiting.
void PostedWrites::arrive(std::uint32_t nic) {
  [[maybe_unused]] const Hold lock(table_->mutex);
  forget(nic);
}

void PostedWrites::arrive_all() {
  [[maybe_unused]] const Hold lock(table_->mutex);
  for (Slot& slot : table_->slots) slot.end = 0;
}

void PostedWrites::clear() {
  arrive_all();
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(kTableBytes),
              static_cast<off_t>(bytes_ - kTableBytes));
}

/// The longest run from the start of the range that is entirely posted or entirely not, with the
/// address where the engines find it.
PostedWrites::Range PostedWrites::next_piece(const Range& range, bool& posted) {
  const Hold lock(table_->mutex);
  posted = false;
  if (!lock.held()) return range;
  std::uint64_t end = range.offset + range.bytes;
  for (const Slot& slot : table_->slots) {
    if (!slot.overlaps(range.offset, end)) continue;
    posted = slot.begin <= range.offset;
    end = posted ? std::min(end, slot.end) : slot.begin;
    if (posted) break;
  }
  return {range.offset, end - range.offset, posted ? earlier(range.offset) : range.memory};
}

namespace {

PostedWrites::Range behind(const PostedWrites::Range& range, std::uint64_t bytes) {
  return {range.offset + bytes, range.bytes - bytes, range.memory + bytes};
}

}  // namespace

// Copies without the lock: writes that arrive meanwhile may or may not be seen.
void PostedWrites::engine_reads(const Range& range, std::byte* to) {
  for (Range left = range; left.bytes != 0;) {
    bool posted = false;
    const Range piece = next_piece(left, posted);
    std::memcpy(to, piece.memory, piece.bytes);
    to += piece.bytes;
    left = behind(left, piece.bytes);
  }
}

void PostedWrites::engine_writes(const Range& range, const std::byte* from) {
  for (Range left = range; left.bytes != 0;) {
    bool posted = false;
    const Range piece = next_piece(left, posted);
    std::memcpy(piece.memory, from, piece.bytes);
    from += piece.bytes;
    left = behind(left, piece.bytes);
  }
}

}  // namespace hbmwire::emulation
