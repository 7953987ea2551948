// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/forks.hpp"
#include "counters/store.hpp"

namespace hbmwire::counters {

/// Counts a region as registered during its own life. Move-only.
class LiveRegistration {
 public:
  LiveRegistration() noexcept = default;

  /// May throw std::bad_alloc.
  explicit LiveRegistration(std::uint64_t bytes) : bytes_(bytes) {
    ProcessBlock& process = Store::get().process();
    process.registrations.add_shared(1);
    process.live_bytes.add_shared(bytes);
  }

  LiveRegistration(LiveRegistration&& other) noexcept
      : bytes_(std::exchange(other.bytes_, std::nullopt)), made_(other.made_) {}

  LiveRegistration& operator=(LiveRegistration&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(made_, other.made_);
    return *this;
  }

  LiveRegistration(const LiveRegistration&) = delete;
  LiveRegistration& operator=(const LiveRegistration&) = delete;

  ~LiveRegistration() {
    // In a child by fork(2), the copy stands for the parent's region.
    if (!bytes_ || made_.is_inherited()) return;
    ProcessBlock& process = Store::get().process();
    process.deregistrations.add_shared(1);
    process.live_bytes.add_shared(std::uint64_t{0} - *bytes_);  // subtracts: the sum wraps
  }

 private:
  std::optional<std::uint64_t> bytes_;
  MadeHere made_;
};

}  // namespace hbmwire::counters
