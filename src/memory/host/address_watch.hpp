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

/// Reports when pages of this process are no longer what they were, because of munmap(2),
/// mremap(2), madvise(2) or a mapping over them. It uses the events of userfaultfd(2). The kernel
/// makes the call wait until its event is read, and changed() rises before that. So a thread that
/// knows that such a call has returned also sees that changed() has risen, and take() has the
/// range. There is one object for each process, because a mapping can belong to only one
/// userfaultfd. Thread-safe.
///
/// It has two threads. The reader reads events, and does nothing that could wait for the
/// application: no lock, no allocation. The sweeper calls the subscribers, and may do both.
///
/// Not reported: pages that leave a shared file by ftruncate(2) or fallocate(2), which no mapping
/// notices. Reported late: an address that the kernel gives to one thread while the munmap(2) of
/// another thread, which had it before, has not returned; unmapping_under_way() tells.
///
/// To keep something that depends on pages: call now() for a cursor and watch(), make the object,
/// let others find it, and only then call take(cursor) and being_discarded(). If either of them
/// reports these pages, the object must not be found any more.
///
/// A child by fork(2) watches nothing: watch() fails, take() reports that all has changed, and
/// get() makes a new object.
class AddressWatch {
 public:
  /// The object of this process, made if there is none. Errors: Stage::register_memory (the kernel
  /// has no userfaultfd, forbids it, or lacks one of the events: Hint::no_userfaultfd).
  static Result<std::shared_ptr<AddressWatch>> get();

  /// Used by get().
  AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;
  /// May be called within a subscriber's call.
  ~AddressWatch();

  /// Watches the pages of the range from now on. Calls are counted, because ranges may overlap. The
  /// system call splits mappings: a range in the middle of another costs the process up to two more
  /// mappings of vm.max_map_count. Errors: Stage::register_memory (not all of it can be watched,
  /// such as a file's pages, a hole, or pages of another userfaultfd: Hint::memory_not_watched). On
  /// an error, nothing is watched that was not watched before.
  Result<void> watch(AddressRange range);

  /// Takes back one watch() of exactly this range, whatever lies there now.
  void unwatch(AddressRange range) noexcept;

  /// Rises before any change of watched pages can become visible. Costs one load.
  [[nodiscard]] std::uint64_t changed() const noexcept {
    return changed_.load(std::memory_order_acquire);
  }

  /// The place of a reader among the changes. As long as changed() equals `settled`, nothing has
  /// changed since.
  struct Cursor {
    std::uint64_t settled = 0;  ///< all changes up to this value of changed() were taken
    std::uint64_t next = 0;     ///< index of the next event
  };

  /// A cursor for an object that is made now. changed() may have risen already: then the next
  /// take() returns what is new.
  [[nodiscard]] Cursor now() const noexcept;

  /// Calls `gone(range)` for each change since the cursor was last used. First waits (microseconds)
  /// for the events that changed() counts when the call begins. The range kAllAddresses says that
  /// there were too many changes to know, or that all watching has ended. Takes no lock. A cursor
  /// is for one thread at a time.
  template <class Use>
  void take(Cursor& cursor, Use gone) {
    const auto call = [](void* use, AddressRange range) { (*static_cast<Use*>(use))(range); };
    collect(cursor, call, &gone);
  }

  /// Whether pages of the range were discarded (madvise(2)) a moment ago, by a call that may still
  /// be running: its event comes before it discards. A registration that was made since then must
  /// not be kept. Call it after registering. take() reports later those discards that changed()
  /// does not count yet.
  [[nodiscard]] bool being_discarded(AddressRange range) const noexcept;

  /// Whether a call of some thread is about to change watched pages, or has changed them, and its
  /// event has not been read. It is for a thread that got an address from mmap(2) that another
  /// thread has just unmapped: call this first, and then changed(). It may return true too often:
  /// kernels before 6.12 do so for ever after an mremap(2) that failed half-way. So treat it as a
  /// reason to register anew, not to wait. Costs one system call, 0.2 us.
  [[nodiscard]] bool unmapping_under_way() const noexcept;

  /// Lets the sweeper call `changed` soon after pages have changed, until the result is destroyed.
  /// The sweeper waits a millisecond, so that changes which come together cause one call.
  /// Destroying the result waits for a running call, except from within that call: so do not hold a
  /// lock that the call takes.
  using Subscription = std::shared_ptr<const void>;
  Subscription subscribe(std::function<void()> changed);

 private:
  struct Impl;

  Result<void> start();
  /// Calls `use(context, range)` for each change. Does not allocate: a failure would leave changes
  /// unreported.
  void collect(Cursor& cursor, void (*use)(void* context, AddressRange range), void* context);

  std::atomic<std::uint64_t> changed_{0};
  // Shared with the sweeper, which may outlive this object by a moment.
  std::shared_ptr<Impl> impl_;
};

}  // namespace hbmwire::memory::host
