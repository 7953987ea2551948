// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "emulation/nic/state/favoured_lock.hpp"

namespace hbmwire::emulation::nic {

/// What pollers and the helper thread carry on with: requests that wait, or are on their way.
class Parkable {
 public:
  Parkable() = default;
  Parkable(const Parkable&) = delete;
  Parkable& operator=(const Parkable&) = delete;
  Parkable(Parkable&&) = delete;
  Parkable& operator=(Parkable&&) = delete;
  virtual ~Parkable() = default;

  virtual void progress_locked() = 0;

  /// When progress_locked() is due even if nobody pokes; 0: never.
  [[nodiscard]] virtual std::uint64_t due_locked() const = 0;

  /// The process ends: what must not be lost with it happens now.
  virtual void end_locked() {}

  void progress() {
    const std::lock_guard guard(mutex);
    progress_locked();
  }

  SenderMutex mutex;  // whatever follows, and every request in execution

  std::size_t parked_at = 0;  // its place among what waits; guarded by the lock of that list
};

}  // namespace hbmwire::emulation::nic
