// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hbmwire/error.hpp"

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// Tells when pages of this process are no longer what they were: munmap(2), mremap(2), madvise(2),
/// a mapping over them, by userfaultfd(2)'s events. The kernel has the call wait until its event is
/// read, and changed() has risen before that. So who knows that such a call has returned finds
/// changed() risen, and take() has the range. One for the process, since a mapping can belong to
/// one userfaultfd alone. Thread-safe.
///
/// Two threads belong to it. The reader reads events and does nothing that could wait for the
/// application: no lock, no allocation. The sweeper calls who has subscribed, and may do both.
///
/// Not told of: pages that leave a shared file by ftruncate(2) or fallocate(2), which no mapping
/// sees. Not in time: an address that the kernel has given to one thread while the munmap(2) of
/// another, who had it, has not returned; unmapping_under_way() tells.
///
/// Who keeps something of pages: cursor = now(), watch(), make it, have it found, and only then
/// take(cursor) and being_discarded(): what either tells of those pages must not be found again.
///
/// In a child by fork(2) nothing of it is watched: watch() fails, take() says that all is changed,
/// get() makes a new one.
class AddressWatch {
 public:
  /// The process's one, made when nobody has it. Errors: Stage::register_memory: the kernel has no
  /// userfaultfd, forbids it, or lacks one of the events (Hint::no_userfaultfd).
  static Result<std::shared_ptr<AddressWatch>> get();

  /// Of get().
  AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;
  /// Also from within a subscriber's call.
  ~AddressWatch();

  /// Watches the pages of the range from now on; counted, for ranges may overlap. A system call
  /// that splits mappings: a range amid others costs the process up to two more of
  /// vm.max_map_count. Errors: Stage::register_memory: not all of it can be watched (a file's
  /// pages, a hole, pages of another userfaultfd; Hint::memory_not_watched). Nothing is watched
  /// then that was not before.
  Result<void> watch(AddressRange range);

  /// Takes back one watch() of exactly this range, whatever lies there now.
  void unwatch(AddressRange range) noexcept;

  /// Rises before any change of watched pages can have been seen to have happened. One load.
  [[nodiscard]] std::uint64_t changed() const noexcept {
    return changed_.load(std::memory_order_acquire);
  }

  /// What was changed since this cursor was last used. As long as changed() is `settled`, nothing.
  struct Cursor {
    std::uint64_t settled = 0;  ///< all that changed() counts up to here has been taken
    std::uint64_t next = 0;     ///< of the events
  };

  /// For what begins now. It may have risen already: then the next take() gives what is new.
  [[nodiscard]] Cursor now() const noexcept;

  /// Calls `gone(range)` for each, after waiting (microseconds) for the events that changed()
  /// speaks of as the call begins. The range kAllAddresses says that there were too many to know,
  /// or that all watching has ended. Takes no lock; a cursor is for one thread at a time.
  template <class Use>
  void take(Cursor& cursor, Use gone) {
    const auto call = [](void* use, AddressRange range) { (*static_cast<Use*>(use))(range); };
    collect(cursor, call, &gone);
  }

  /// Whether pages of the range were discarded (madvise(2)) a moment ago, by a call that may still
  /// be at it: its event comes before, and it does the work after. What was registered of them
  /// since must not be kept. To be asked after registering; of discards that changed() has not
  /// counted yet, take() tells later.
  [[nodiscard]] bool being_discarded(AddressRange range) const noexcept;

  /// Whether a call of some thread is about to change watched pages, or has, and its event has not
  /// been read. For who was given an address by mmap(2) that another thread has just unmapped: ask
  /// this first, then changed(). Says yes rather too often: kernels before 6.12 go on saying so
  /// after an mremap(2) that failed half-way. So it is a reason to register anew, not to wait. One
  /// system call, 0.2 us.
  [[nodiscard]] bool unmapping_under_way() const noexcept;

  /// Has the sweeper call `changed`, soon after pages have changed (a millisecond, so that what
  /// comes together costs one call), until the result is destroyed; that waits for a call that is
  /// going on, but from within it. So hold no lock over it which the call takes.
  using Subscription = std::shared_ptr<const void>;
  Subscription subscribe(std::function<void()> changed);

 private:
  struct Impl;

  Result<void> start();
  /// Calls `use(context, range)` for each. Allocates nothing: what is not taken would be found
  /// again.
  void collect(Cursor& cursor, void (*use)(void* context, AddressRange range), void* context);

  std::atomic<std::uint64_t> changed_{0};
  std::shared_ptr<Impl> impl_;  // with the sweeper, which may outlive this object by a moment
};

}  // namespace hbmwire::memory::host
