// SPDX-License-Identifier: MIT
//
// GpuMemory: ranges that one process shares and others attach, for the vendors' IPC handles.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "emulation/common/gpu_memory.hpp"
#include "emulation/common/gpu_memory_slots.hpp"
#include "emulation/common/slots.hpp"

namespace hbmwire::emulation {
namespace {

bool random_key(ShareKey& key) {
  return ::getrandom(key.data(), sizeof key, 0) == static_cast<ssize_t>(sizeof key);
}

std::uint64_t number_of(const ProcessId& process) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(process.pid)) << 32U |
         process.started;
}

}  // namespace

int GpuMemory::share(const Range& range, ShareKey& key) {
  if (!random_key(key)) return -EIO;
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  if (!lock.held()) return -EBUSY;
  Lives lives;
  give_back_of_dead(used(state_->shares, state_->share_end), self(), lives);
  ShareSlot* const slot = free_slot(state_->shares, state_->share_end);
  if (slot == nullptr) return -ENOMEM;
  *slot = {0, 0, self(), key, range};
  take(*slot);
  return 0;
}

// Goes on even if a stopped process holds the lock: ending a share is a single store, and no
// process may attach memory that is about to be freed.
bool GpuMemory::unshare(const ShareKey& key) {
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  for (auto& slot : used(state_->shares, state_->share_end)) {
    if (slot.live == 0 || slot.owner != self() || slot.key != key) continue;
    const Range range = slot.range;
    give_back(slot);
    return !lock.held() || is_attached_locked(range);
  }
  return false;
}

/// The state's lock is held.
bool GpuMemory::is_attached_locked(const Range& range) {
  const auto attachments = used(state_->attachments, state_->attachment_end);
  Lives lives;
  give_back_of_dead(attachments, self(), lives);
  return std::ranges::any_of(attachments, [&](const AttachmentSlot& one) {
    return one.live != 0 && overlap(one.range, range);
  });
}

bool GpuMemory::is_attached(const Range& range) {
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  return !lock.held() || is_attached_locked(range);
}

// Shares of a dead process are gone, though processes that have attached them keep the bytes.
int GpuMemory::attach(const ShareKey& key, Attachment& made) {
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  if (!lock.held()) return -EBUSY;
  const auto shares = used(state_->shares, state_->share_end);
  Lives lives;
  give_back_of_dead(shares, self(), lives);
  const auto share = std::ranges::find_if(
      shares, [&](const ShareSlot& slot) { return slot.live != 0 && slot.key == key; });
  if (share == shares.end()) return -ENOENT;
  give_back_of_dead(used(state_->attachments, state_->attachment_end), self(), lives);
  AttachmentSlot* const slot = free_slot(state_->attachments, state_->attachment_end);
  if (slot == nullptr) return -ENOMEM;
  *slot = {0, 0, self(), share->range};
  take(*slot);
  made.range = share->range;
  made.slot = static_cast<std::uint32_t>(slot - state_->attachments.data());
  made.owner = number_of(share->owner);
  made.own = share->owner == self();
  return 0;
}

void GpuMemory::detach(const Attachment& attachment) {
  const std::lock_guard guard(mutex_);
  const Hold lock(state_->mutex);
  give_back(state_->attachments.at(attachment.slot));
  // Without the lock, which a stopped process holds, nothing is freed here. The next process that
  // looks frees the ranges that were only kept for this one.
  if (!lock.held()) return;
  note_gone_exports();
  free_unused();
}

}  // namespace hbmwire::emulation
