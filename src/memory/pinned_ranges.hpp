// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"

namespace hbmwire::memory {

/// Host memory that a device's driver has locked for its engine (MemoryDomain::pin_host()).
/// Thread-safe; the driver is called with the lock held.
class PinnedRanges {
 public:
  /// `lock(memory)` calls the driver, and returns a Result. Errors: those of `lock`;
  /// Errc::invalid_argument, Stage::copy (no bytes, or some of them are pinned already).
  template <class Lock>
  Result<void> add(std::span<std::byte> memory, std::string_view device, Lock lock) {
    const std::scoped_lock held(mutex_);
    const bool overlaps = std::ranges::any_of(ranges_, [&](const auto pinned) {
      return memory.data() < end_of(pinned) && pinned.data() < end_of(memory);
    });
    if (memory.empty() || overlaps) {
      return tl::make_unexpected(make_error(
          Errc::invalid_argument, Stage::copy,
          memory.empty() ? "no bytes to pin" : "some of the bytes are pinned already", device));
    }
    ranges_.reserve(ranges_.size() + 1);  // before lock(), so that memory surely has a place
    HBMWIRE_TRY(lock(memory));
    ranges_.push_back(memory);
    return {};
  }

  /// Does nothing if the memory is not pinned.
  template <class Unlock>
  void remove(std::span<std::byte> memory, Unlock unlock) noexcept {
    const std::scoped_lock held(mutex_);
    const auto pinned = std::ranges::find(ranges_, memory.data(), &std::span<std::byte>::data);
    if (pinned == ranges_.end()) return;
    ranges_.erase(pinned);
    unlock(memory);
  }

  template <class Unlock>
  void remove_all(Unlock unlock) noexcept {
    const std::scoped_lock held(mutex_);
    for (const auto pinned : ranges_) unlock(pinned);
    ranges_.clear();
  }

  /// Whether the engine reaches all of `memory` directly.
  [[nodiscard]] bool hold(std::span<const std::byte> memory) {
    const std::scoped_lock held(mutex_);
    return std::ranges::any_of(ranges_, [&](const auto pinned) {
      return memory.data() >= pinned.data() && end_of(memory) <= end_of(pinned);
    });
  }

 private:
  static const std::byte* end_of(std::span<const std::byte> memory) noexcept {
    return memory.data() + memory.size();
  }

  std::mutex mutex_;
  std::vector<std::span<std::byte>> ranges_;
};

}  // namespace hbmwire::memory
