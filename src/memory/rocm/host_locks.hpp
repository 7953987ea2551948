// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string_view>

#include "hbmwire/error.hpp"

#include "memory/rocm/hsa.hpp"

namespace hbmwire::memory::rocm {

/// The host memory that this process's copies have locked. ROCr unlocks by the first address alone.
/// If two locks began at one address, it might remove the wrong one, so there is never a
/// second. Thread-safe.
class HostLocks {
 public:
  explicit HostLocks(const Hsa& hsa) : hsa_(hsa) {}

  /// Locks the bytes for all GPUs, and returns the GPUs' address. Unlock them by their first
  /// address. Errors: Stage::copy; Errc::busy if a shorter lock begins at the same address.
  Result<void*> lock(std::span<std::byte> bytes, std::string_view device);
  void unlock(void* first) noexcept;

  /// Whether one of these locks begins there.
  [[nodiscard]] bool has(void* first);

 private:
  /// One locked range, by its first address.
  struct Lock {
    std::size_t size_bytes = 0;
    void* seen_at = nullptr;
    unsigned holders = 0;
  };

  const Hsa& hsa_;
  std::mutex mutex_;
  std::map<void*, Lock> locks_;
};

}  // namespace hbmwire::memory::rocm
