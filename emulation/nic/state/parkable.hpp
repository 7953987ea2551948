// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "emulation/nic/state/favoured_lock.hpp"

namespace hbmwire::emulation::nic {

/// A queue's requests that wait or are in flight. Pollers and the helper thread carry on with them.
class Parkable {
 public:
  Parkable() = default;
  Parkable(const Parkable&) = delete;
  Parkable& operator=(const Parkable&) = delete;
  Parkable(Parkable&&) = delete;
  Parkable& operator=(Parkable&&) = delete;
  virtual ~Parkable() = default;

  virtual void progress_locked() = 0;

  /// When progress_locked() is due without a wake-up (now_ns()); 0: never.
  [[nodiscard]] virtual std::uint64_t due_locked() const = 0;

  /// Called when the process ends: completes the part of the work that must not be lost.
  virtual void end_locked() {}

  void progress() {
    const std::lock_guard guard(mutex);
    progress_locked();
  }

  SenderMutex mutex;  // guards the members of derived classes, and requests in execution

  std::size_t parked_at = 0;  // its place in the list of waiting queues; guarded by its lock
};

}  // namespace hbmwire::emulation::nic
