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

/// The thread that reads a userfaultfd's events. The application's munmap(2) waits for it, with
/// whatever locks it holds, malloc(3)'s among them: so this thread takes no lock, allocates and
/// frees nothing, and logs nothing.
class EventReader {
 public:
  // Of changes: for a cursor that was not used for some milliseconds of a program that does nothing
  // but unmap (100,000 a second). Of discards: a second's worth of a busy allocator's.
  using Changes = EventRing<4096>;   ///< detail: where to it was moved, or 0
  using Discards = EventRing<1024>;  ///< detail: when, in ns of the steady clock

  /// `changed` rises before each read, and must live until stop().
  explicit EventReader(std::atomic<std::uint64_t>& changed) noexcept : changed_(changed) {}

  /// Once. Errors: as Userfaultfd::open(), and what a thread and a descriptor take.
  Result<void> start();

  /// Ends the thread and closes the userfaultfd. Nobody may use that any more.
  void stop() noexcept;

  [[nodiscard]] const Userfaultfd& userfaultfd() const noexcept { return *userfaultfd_; }

  [[nodiscard]] const Changes& changes() const noexcept { return changes_; }

  [[nodiscard]] const Discards& discards() const noexcept { return discards_; }

  /// The value of `changed` whose event, and all before it, are in the rings.
  [[nodiscard]] std::uint64_t queued() const noexcept {
    return queued_.load(std::memory_order_acquire);
  }

  /// Until queued() has reached the value: microseconds, as the thread has been woken already.
  void wait_until_queued(std::uint64_t value) const noexcept;

  /// The userfaultfd no longer works: somebody closed it. Never false again.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  /// Rises with each event and each wake(). For std::atomic::wait().
  [[nodiscard]] const std::atomic<std::uint32_t>& news() const noexcept { return news_; }

  void wake() noexcept;

 private:
  static void* body(void* self);
  void run() noexcept;
  void read_one() noexcept;

  std::atomic<std::uint64_t>& changed_;
  std::optional<Userfaultfd> userfaultfd_;
  Fd stop_;  // eventfd(2), to wake the thread when it is to end
  std::atomic<bool> stopping_{false};
  QuietThread thread_;
  std::atomic<std::uint64_t> queued_{0};
  std::atomic<bool> lost_{false};
  std::atomic<std::uint32_t> news_{0};
  Changes changes_;
  Discards discards_;
};

}  // namespace hbmwire::memory::host
