// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "memory/host/address_range.hpp"
#include "memory/host/event_ring.hpp"
#include "memory/host/quiet_thread.hpp"
#include "memory/host/userfaultfd.hpp"

namespace hbmwire::memory::host {

/// The thread that reads a userfaultfd's events. The application's munmap(2) waits for it while
/// holding any locks, including those of malloc(3). So this thread takes no lock, neither allocates
/// nor frees memory, and does not log.
class EventReader {
 public:
  // Changes: enough for a cursor that was not used for some milliseconds, in a program that does
  // nothing but unmap (100,000 times a second). Discards: those of a busy allocator in a second.
  using Changes = EventRing<4096>;   ///< detail: the new address after a move, or 0
  using Discards = EventRing<1024>;  ///< detail: the time, in ns of the steady clock

  /// `changed` rises before each read. It must live until stop().
  explicit EventReader(std::atomic<std::uint64_t>& changed) noexcept : changed_(changed) {}

  /// Call it once. Errors: those of Userfaultfd::open(), and a shortage of threads or descriptors.
  Result<void> start();

  /// Ends the thread and closes the userfaultfd. No other thread may use it any more.
  void stop() noexcept;

  [[nodiscard]] const Userfaultfd& userfaultfd() const noexcept { return *userfaultfd_; }

  [[nodiscard]] const Changes& changes() const noexcept { return changes_; }

  [[nodiscard]] const Discards& discards() const noexcept { return discards_; }

  /// The value of `changed` up to which all events are in the rings.
  [[nodiscard]] std::uint64_t queued() const noexcept {
    return queued_.load(std::memory_order_acquire);
  }

  /// Waits until queued() has reached the value: microseconds, because the thread is awake already.
  void wait_until_queued(std::uint64_t value) const noexcept;

  /// The userfaultfd no longer works, because another part of the program has closed it. Stays
  /// true.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  /// Increases with each event and each wake(). For std::atomic::wait().
  [[nodiscard]] const std::atomic<std::uint32_t>& news() const noexcept { return news_; }

  void wake() noexcept;

 private:
  static void* body(void* self);
  void run() noexcept;
  void read_one() noexcept;

  std::atomic<std::uint64_t>& changed_;
  std::optional<Userfaultfd> userfaultfd_;
  Fd stop_;  // eventfd(2) that wakes the thread to end it
  std::atomic<bool> stopping_{false};
  QuietThread thread_;
  std::atomic<std::uint64_t> queued_{0};
  std::atomic<bool> lost_{false};
  std::atomic<std::uint32_t> news_{0};
  Changes changes_;
  Discards discards_;
};

}  // namespace hbmwire::memory::host
