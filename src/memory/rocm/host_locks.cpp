// SPDX-License-Identifier: MIT
#include "memory/rocm/host_locks.hpp"

#include "base/guarded.hpp"

namespace hbmwire::memory::rocm {

Result<void*> HostLocks::lock(std::span<std::byte> bytes, std::string_view device) {
  const std::scoped_lock guard(mutex_);
  if (const auto found = locks_.find(bytes.data()); found != locks_.end()) {
    if (found->second.size_bytes < bytes.size()) {
      return tl::make_unexpected(
          make_error(Errc::busy, Stage::copy,
                     "a shorter copy of the same host memory is not yet over", device));
    }
    ++found->second.holders;
    return found->second.seen_at;
  }
  void* seen_at = nullptr;
  // nullptr and 0: for all GPUs.
  if (const int status = hsa_.memory_lock(bytes.data(), bytes.size(), nullptr, 0, &seen_at);
      status != kHsaSuccess) {
    return tl::make_unexpected(
        hsa_error(Stage::copy, "hsa_amd_memory_lock", status, device, Hint::memlock_limit));
  }
  or_undo(
      [&] {
        locks_[bytes.data()] = {.size_bytes = bytes.size(), .seen_at = seen_at, .holders = 1};
      },
      [&] { hsa_.memory_unlock(bytes.data()); });
  return seen_at;
}

void HostLocks::unlock(void* first) noexcept {
  const std::scoped_lock guard(mutex_);
  const auto found = locks_.find(first);
  if (--found->second.holders != 0) return;
  destroy_or_log_hsa("hsa_amd_memory_unlock", [&] { return hsa_.memory_unlock(first); });
  locks_.erase(found);
}

bool HostLocks::has(void* first) {
  const std::scoped_lock guard(mutex_);
  return locks_.contains(first);
}

}  // namespace hbmwire::memory::rocm
