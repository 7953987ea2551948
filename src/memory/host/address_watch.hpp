// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hbmwire/error.hpp"

namespace hbmwire::memory::host {

/// A range of addresses.
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< the first one behind it

  bool operator==(const AddressRange&) const = default;
};

/// Tells when pages of this process are no longer what they were: munmap(2), mremap(2), madvise(2),
/// a mapping over them. By userfaultfd(2)'s events: the kernel has the call wait until its event is
/// read, and changed() has risen before that. So who knows that such a call has returned finds
/// changed() risen, and take() has the range. One for the process, since a mapping can belong to
/// one userfaultfd alone. Thread-safe.
///
/// Two threads belong to it. The reader reads events and does nothing that could wait for the
/// application: no lock that is held over a call which unmaps, no allocation. The sweeper calls who
/// has subscribed, and may do both.
///
/// Not told of: pages that leave a shared file by ftruncate(2) or fallocate(2), which no mapping
/// sees.
class AddressWatch {
 public:
  /// The process's one, made when nobody has it. Errors: Stage::register_memory: the kernel has no
  /// userfaultfd, forbids it, or lacks one of the events.
  static Result<std::shared_ptr<AddressWatch>> get();

  AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;
  ~AddressWatch();

  /// Watches the pages of [address, address + length_bytes) from now on; counted, for ranges may
  /// overlap. Errors: Stage::register_memory: not all of it can be watched (a file's pages, a hole,
  /// pages of another userfaultfd). Nothing is watched then that was not before.
  Result<void> watch(AddressRange range);

  /// Takes back one watch() of exactly this range, whatever lies there now.
  void unwatch(AddressRange range) noexcept;

  /// Rises before any change of watched pages can have been seen to have happened. One load.
  [[nodiscard]] std::uint64_t changed() const noexcept {
    return changed_.load(std::memory_order_acquire);
  }

  /// What was changed since this cursor was last used.
  struct Cursor {
    std::uint64_t settled = 0;  ///< changed() as of the last take(): all before it has been taken
    std::uint64_t next = 0;     ///< of the events
  };

  [[nodiscard]] Cursor now() const noexcept;

  /// Calls `gone(range)` for each, after waiting (microseconds) for the events that changed()
  /// speaks of as the call begins. A range [0, ~0) says that there were too many to know. Not from
  /// within the subscriber of another thread's lock: it takes none.
  template <class Use>
  void take(Cursor& cursor, Use gone) {
    for (const AddressRange& range : collect(cursor)) gone(range);
  }

  /// Without waiting, as changed() rises when there are events only: pages that were discarded a
  /// moment ago, by a call that may still be at it. What is registered of them now must not be
  /// kept.
  [[nodiscard]] bool being_discarded(AddressRange range) const noexcept;

  /// Has the sweeper call `changed`, soon after pages have changed, until the result is destroyed;
  /// that waits for a call that is going on.
  using Subscription = std::shared_ptr<const void>;
  Subscription subscribe(std::function<void()> changed);

 private:
  std::vector<AddressRange> collect(Cursor& cursor);

  struct Impl;
  std::atomic<std::uint64_t> changed_{0};
  std::unique_ptr<Impl> impl_;
};

}  // namespace hbmwire::memory::host
