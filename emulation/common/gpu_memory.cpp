// SPDX-License-Identifier: MIT
#include "emulation/common/gpu_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "emulation/common/copy_past_caches.hpp"
#include "emulation/common/gpu_memory_slots.hpp"
#include "emulation/common/open_files.hpp"
#include "emulation/common/publish_export.hpp"
#include "emulation/common/ranges.hpp"
#include "emulation/common/room.hpp"
#include "emulation/common/slots.hpp"
#include "emulation/common/thread_status.hpp"

namespace hbmwire::emulation {
namespace {

std::byte* map_shared(int fd, std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, bytes, MADV_DONTDUMP);  // as large as the GPU
  ::madvise(memory, bytes, MADV_DONTFORK);
  return static_cast<std::byte*>(memory);
}

}  // namespace

std::unique_ptr<GpuMemory> GpuMemory::open(const std::filesystem::path& directory) {
  std::unique_ptr<GpuMemory> memory(new GpuMemory);
  return memory->map(directory) ? std::move(memory) : nullptr;
}

bool GpuMemory::map(const std::filesystem::path& directory) {
  hbm_path_ = (directory / "hbm").string();
  process_ = ::getpid();
  started_ = thread_status(process_).started;
  if (const int error = watch_.start(); error != 0) {
    errno = -error;
    return false;
  }
  hbm_ = ::open(hbm_path_.c_str(), O_RDWR | O_CLOEXEC);

  struct stat status {};

  if (hbm_ < 0 || ::fstat(hbm_, &status) != 0) return false;
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  memory_ = map_shared(hbm_, size_bytes_);
  if (memory_ == nullptr) return false;
  const OwnedFd state(::open((directory / "state").c_str(), O_RDWR | O_CLOEXEC));
  if (state.get() < 0 || ::ftruncate(state.get(), sizeof(GpuMemoryState)) != 0) return false;
  state_ = reinterpret_cast<GpuMemoryState*>(map_shared(state.get(), sizeof(GpuMemoryState)));
  if (state_ == nullptr) return false;
  const auto posted = directory / "posted";
  if (::access(posted.c_str(), F_OK) != 0) return true;
  posted_path_ = posted.string();
  posted_ = PostedWrites::open(posted);
  return posted_ != nullptr;
}

GpuMemory::~GpuMemory() {
  if (state_ != nullptr) ::munmap(state_, sizeof(GpuMemoryState));
  if (memory_ != nullptr) ::munmap(memory_, size_bytes_);
  if (hbm_ >= 0) ::close(hbm_);
  watch_.stop();
}

void GpuMemory::note_gone_exports() {
  for (const int watch : watch_.gone()) {
    for (auto& slot : used(state_->exports, state_->export_end)) {
      const bool own = slot.owner == self();
      if (slot.live != 0 && own && slot.watch == watch) give_back(slot);
    }
  }
}

/// Frees the ranges of dead processes and of ended exports. The state's lock is held.
void GpuMemory::sweep() {
  note_gone_exports();
  const ProcessId self = this->self();
  Lives lives;
  give_back_of_dead(used(state_->shares, state_->share_end), self, lives);
  give_back_of_dead(used(state_->attachments, state_->attachment_end), self, lives);
  for (auto& slot : used(state_->ranges, state_->range_end)) {
    if (slot.live != 0 && slot.owner != self && lives.dead(slot.owner)) slot.given_back = 1;
  }
  std::map<std::pair<std::uint64_t, std::uint64_t>, bool> held;  // remembers answers, because each
                                                                 // costs a look at all open files
  for (auto& slot : used(state_->exports, state_->export_end)) {
    if (slot.live == 0 || slot.owner == self || !lives.dead(slot.owner)) continue;
    const auto [known, is_new] = held.try_emplace({slot.device, slot.inode}, false);
    if (is_new) known->second = is_open_in_a_process(slot.device, slot.inode);
    if (!known->second) give_back(slot);
  }
  free_unused();
}

void GpuMemory::free_unused() {
  const auto exports = used(state_->exports, state_->export_end);
  const auto attachments = used(state_->attachments, state_->attachment_end);
  for (auto& slot : used(state_->ranges, state_->range_end)) {
    if (slot.live == 0 || slot.given_back == 0) continue;
    const auto keeps = [&](const auto& one) {
      return one.live != 0 && overlap(one.range, slot.range);
    };
    if (std::ranges::any_of(exports, keeps) || std::ranges::any_of(attachments, keeps)) continue;
    punch(slot.range);
    give_back(slot);
  }
}

void GpuMemory::punch(const Range& range) const {
  ::fallocate(hbm_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(range.offset_bytes), static_cast<off_t>(range.length_bytes));
}

ProcessId GpuMemory::self() const { return {process_, started_}; }

int GpuMemory::free_bytes(std::uint64_t& bytes) {
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  if (!lock.held()) return -EBUSY;
  sweep();
  bytes = size_bytes_;
  for (const auto& slot : used(state_->ranges, state_->range_end)) {
    if (slot.live != 0) bytes -= slot.range.length_bytes;
  }
  return 0;
}

int GpuMemory::allocate(std::uint64_t bytes, Range& range) {
  if (bytes == 0) return -EINVAL;
  if (bytes > size_bytes_) return -ENOMEM;
  bytes = round_up(bytes, kGranule);
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  if (!lock.held()) return -EBUSY;
  sweep();
  std::vector<AddressRange> taken;
  for (const auto& slot : used(state_->ranges, state_->range_end)) {
    const auto& [offset, length] = slot.range;
    if (slot.live != 0) taken.push_back({offset, offset + length});
  }
  for (const auto& hole : gaps({0, round_down(size_bytes_, kGranule)}, std::move(taken))) {
    if (hole.bytes() < bytes) continue;
    RangeSlot* slot = free_slot(state_->ranges, state_->range_end);
    if (slot == nullptr) return -ENOMEM;
    range = {hole.begin, bytes};
    if (reserve(hbm_path_.c_str(), at(hole.begin), bytes, true) != 0) {
      punch(range);
      return -ENOMEM;
    }
    *slot = {0, 0, self(), range};
    take(*slot);
    return 0;
  }
  return -ENOMEM;
}

void GpuMemory::free(const Range& range) {
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  for (auto& slot : used(state_->ranges, state_->range_end)) {
    if (slot.live == 0 || slot.range != range) continue;
    slot.given_back = 1;
    break;
  }
  // Without the lock, which a stopped process holds, the range is only marked as given back. The
  // next process that looks frees it.
  if (!lock.held()) return;
  note_gone_exports();
  free_unused();
}

int GpuMemory::record_export(int watch, int memfd, std::span<const Range> ranges) {
  struct stat status {};

  if (::fstat(memfd, &status) != 0) return -errno;
  const Hold lock(state_->mutex);
  if (!lock.held()) return -EBUSY;
  note_gone_exports();
  for (const auto& range : ranges) {
    ExportSlot* slot = free_slot(state_->exports, state_->export_end);
    if (slot == nullptr) return -ENOMEM;
    *slot = {0, watch, self(), status.st_dev, status.st_ino, range};
    take(*slot);
  }
  return 0;
}

int GpuMemory::export_dmabuf(const char* name, std::span<const Range> ranges) {
  PublishedExport made;
  const int published = publish_export({name, hbm_path_, posted_path_, ranges}, made);
  if (published != 0) return published;
  const std::lock_guard guard(mutex_);
  const int watch = watch_.add(made.memfd.get());
  if (watch < 0) return watch;
  // Slots recorded before a failure are freed when the memfd is gone.
  const int recorded = record_export(watch, made.memfd.get(), ranges);
  return recorded != 0 ? recorded : made.reference.release();
}

void GpuMemory::read(std::uint64_t offset, std::byte* to, std::uint64_t bytes) const {
  if (posted_) {
    posted_->engine_reads({offset, bytes, at(offset)}, to);
  } else {
    std::memcpy(to, at(offset), bytes);
  }
}

void GpuMemory::write(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) const {
  if (posted_) {
    posted_->engine_writes({offset, bytes, at(offset)}, from);
  } else {
    store_by_engine(at(offset), from, bytes);
  }
}

void GpuMemory::write_from(std::uint64_t offset, const GpuMemory& from, std::uint64_t from_offset,
                           std::uint64_t bytes) const {
  const bool apart =
      &from != this || offset + bytes <= from_offset || from_offset + bytes <= offset;
  if (apart && !from.posted_) return write(offset, from.at(from_offset), bytes);
  std::vector<std::byte> all(bytes);
  from.read(from_offset, all.data(), bytes);
  write(offset, all.data(), bytes);
}

void GpuMemory::flush() const {
  if (posted_) posted_->arrive_all();
}

template <typename Slots>
std::uint64_t GpuMemory::count_own(Slots slots) {
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  if (!lock.held()) return 0;
  return static_cast<std::uint64_t>(std::ranges::count_if(
      slots(), [this](const auto& slot) { return slot.live != 0 && slot.owner == self(); }));
}

std::uint64_t GpuMemory::own_ranges() {
  return count_own([this] { return used(state_->ranges, state_->range_end); });
}

std::uint64_t GpuMemory::own_exports() {
  return count_own([this] {
    note_gone_exports();
    return used(state_->exports, state_->export_end);
  });
}

std::uint64_t GpuMemory::own_shares() {
  return count_own([this] { return used(state_->shares, state_->share_end); });
}

std::uint64_t GpuMemory::own_attachments() {
  return count_own([this] { return used(state_->attachments, state_->attachment_end); });
}

}  // namespace hbmwire::emulation
