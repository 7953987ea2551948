// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/region.hpp"

#include <fcntl.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/memory/window.hpp"
#include "emulation/nic/state/activity.hpp"
#include "emulation/nic/state/allocation.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Finds where the `segment.length` bytes at `offset` of an MR are.
void locate(Process& process, RegionCache& cache, const MrRecord& mr, std::uint64_t offset,
            Segment& segment) {
  segment.address = mr.address + offset;
  segment.foreign_pid = 0;
  segment.posted_mr = mr.posted_fd < 0 ? 0 : static_cast<std::uint32_t>(&mr - process.shared().mrs);
  segment.relaxed = (mr.access & IBV_ACCESS_RELAXED_ORDERING) != 0;
  const std::uint32_t owner = mr.owner.load(std::memory_order_relaxed);
  if (owner == process.slot()) return;
  if (mr.kind != MrRecord::private_memory) {
    if (const Backing* backing = cache.map(process, mr)) {
      segment.address = reinterpret_cast<std::uint64_t>(backing->base()) + mr.file_offset + offset;
      return;
    }
  }
  // Private memory, or a file that only its owner can open, is reached through the owner.
  segment.foreign_pid = process.pid_of(owner);
}

MrRecord::Kind kind_of(const RegionRequest& request) {
  if (!request.backing) return MrRecord::private_memory;
  return request.backing->segments().empty() ? MrRecord::file : MrRecord::segments;
}

/// Fills in the record. The caller makes sure that no other thread reads it.
void fill(Process& process, MrRecord& mr, const RegionRequest& request) {
  mr.access = request.access;
  mr.kind = kind_of(request);
  mr.serial = process.new_id();
  mr.pd = request.pd;
  mr.iova = request.iova;
  mr.length = request.length;
  mr.address = request.address;
  mr.file_offset = request.file_offset;
  mr.file_fd = request.backing ? request.backing->fd() : -1;
  mr.posted_fd = request.posted ? request.posted->fd() : -1;
  mr.nic = request.room.nic;
}

/// Makes the key invalid. After it returns, no byte changes through the key. Returns EBUSY, with
/// the key valid again, if a process was stopped while it executed a request that may use the key.
int silence(Process& process, MrRecord& mr) {
  const std::uint32_t key = mr.key.exchange(0);
  if (wait_for_activity(process)) return 0;
  mr.key.store(key);
  return EBUSY;
}

}  // namespace

std::uint32_t claim_region(Process& process, const RegionRequest& request) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) {
    errno = EBUSY;
    return 0;
  }
  if (!has_room(process, shared.mrs, shared.uses.mrs, request.room)) {
    errno = ENOMEM;
    return 0;
  }
  const std::uint32_t index = shared.uses.mrs.claim();
  if (index == 0) {
    errno = ENOMEM;
    return 0;
  }
  MrRecord& mr = shared.mrs[index];
  mr.owner.store(process.slot());
  mr.claimed = 1;
  fault_step("claimed");
  mr.tag = (mr.tag + 1) & 0xffU;
  fill(process, mr, request);
  mr.key.store(index << 8U | mr.tag, std::memory_order_release);
  return index;
}

int change_region(Process& process, std::uint32_t index, const RegionRequest& request,
                  bool new_key) {
  MrRecord& mr = process.shared().mrs[index];
  const std::lock_guard guard(process.windows);
  if (is_bound(process, index)) return EBUSY;
  if (const int error = silence(process, mr); error != 0) return error;
  if (new_key) mr.tag = (mr.tag + 1) & 0xffU;
  fill(process, mr, request);
  mr.key.store(index << 8U | mr.tag, std::memory_order_release);
  return 0;
}

int release_region(Process& process, std::uint32_t index) {
  MrRecord& mr = process.shared().mrs[index];
  {
    const std::lock_guard guard(process.windows);
    if (is_bound(process, index)) return EBUSY;
    if (const int error = silence(process, mr); error != 0) return error;
  }
  release_record(process, [&process, &mr, index] {
    fault_step("released");
    mr.claimed = 0;
    process.shared().uses.mrs.release(index);
  });
  return 0;
}

void revoke_region(Process& process, const Party& party, std::uint32_t key) {
  const std::uint32_t index = key >> 8U;
  MrRecord* mr = index < kMaxMrs ? &process.shared().mrs[index] : mr_of_window(process, party, key);
  if (mr == nullptr || mr->owner.load() != party.slot || mr->pd != party.pd) return;
  if (index < kMaxMrs) {
    mr->key.compare_exchange_strong(key, 0);
  } else {
    mr->key.store(0);  // `key` is the window's, so it is not compared
  }
}

const Backing* RegionCache::map(Process& process, const MrRecord& mr) {
  Entry& entry = entries_[mr.serial % entries_.size()];
  if (entry.serial == mr.serial && entry.backing) return entry.backing.get();
  const std::string path = "/proc/" + std::to_string(process.pid_of(mr.owner.load())) + "/fd/" +
                           std::to_string(mr.file_fd);
  const bool writable = (mr.access & IBV_ACCESS_LOCAL_WRITE) != 0;
  const int fd = ::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) return nullptr;
  auto backing = mr.kind == MrRecord::segments ? Backing::of_segments(fd, writable)
                                               : Backing::of_fd(fd, writable);
  // A region past the end of its file means that the file has shrunk; it must not be touched.
  if (!backing || mr.file_offset + mr.length > backing->size()) return nullptr;
  entry = {mr.serial, std::move(backing)};
  return entry.backing.get();
}

PostedWrites* RegionCache::posted(Process& process, const MrRecord& mr) {
  if (posted_ == nullptr) posted_ = std::make_unique<std::array<PostedEntry, 16>>();
  PostedEntry& entry = (*posted_)[mr.serial % posted_->size()];
  if (entry.serial != mr.serial || !entry.posted) {
    entry.posted = PostedWrites::open("/proc/" + std::to_string(process.pid_of(mr.owner.load())) +
                                      "/fd/" + std::to_string(mr.posted_fd));
    entry.serial = mr.serial;
  }
  return entry.posted.get();
}

bool resolve(Process& process, RegionCache& cache, const Party& party, const Access& access,
             Segment& segment) {
  const std::uint32_t index = access.key >> 8U;
  if (index == 0) return false;
  segment.length = access.length;
  if (index >= kMaxMrs) {
    std::uint64_t address = 0;
    const MrRecord* mr = behind_window(process, party, access, address);
    if (mr != nullptr) locate(process, cache, *mr, address - mr->iova, segment);
    return mr != nullptr;
  }
  const MrRecord& mr = process.shared().mrs[index];
  if (!allows(mr, party, access)) return false;
  locate(process, cache, mr, access.address - mr.iova, segment);
  // Checks again: if the owner was killed, the record may belong to another MR by now.
  return mr.key.load(std::memory_order_acquire) == access.key;
}

}  // namespace hbmwire::emulation::nic
