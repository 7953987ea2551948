// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/told_cause.hpp"
#include "memory/host/address_watch.hpp"

namespace hbmwire::detail {

using memory::host::AddressRange;
using memory::host::AddressWatch;

/// One registration cache's use of the process's AddressWatch. It begins with the first host memory
/// that the cache registers, and remembers the last change that the cache has taken into account.
/// The functions up to stop() need no lock, those after it need the cache's lock.
class PageChanges {
 public:
  /// Whether the cache has taken all changes into account. Each hit calls this.
  [[nodiscard]] bool is_settled() const noexcept {
    const AddressWatch* const watch = watching_.load(std::memory_order_acquire);
    return watch == nullptr || watch->changed() == settled_.load(std::memory_order_acquire);
  }

  /// Costs one system call.
  [[nodiscard]] bool is_unmapping_under_way() const noexcept {
    const AddressWatch* const watch = watching_.load(std::memory_order_acquire);
    return watch != nullptr && watch->unmapping_under_way();
  }

  /// See AddressWatch::being_discarded().
  [[nodiscard]] bool is_being_discarded(AddressRange range) const noexcept {
    const AddressWatch* const watch = watching_.load(std::memory_order_acquire);
    return watch != nullptr && watch->being_discarded(range);
  }

  /// Waits for a running call of `changed`. The caller must not hold a lock that this call takes.
  void stop() noexcept { subscription_.reset(); }

  /// Starts the watch, or returns the running one. It calls `changed` from another thread soon
  /// after pages have changed. Null if the kernel offers no watch to this process; each cause is
  /// logged once.
  std::shared_ptr<AddressWatch> start(std::function<void()> changed);

  /// Calls `gone(range)` for each change since the last call.
  template <class Gone>
  void settle(Gone gone) noexcept {
    if (!watch_ || is_settled()) return;
    watch_->take(cursor_, gone);
    settled_.store(cursor_.settled, std::memory_order_release);
  }

 private:
  // Hits read these two members.
  std::atomic<const AddressWatch*> watching_{nullptr};
  std::atomic<std::uint64_t> settled_{0};  // AddressWatch::changed() as of the last settle()

  std::shared_ptr<AddressWatch> watch_;
  AddressWatch::Cursor cursor_;
  bool failed_ = false;  // the kernel has no watch for this process: do not try again
  ToldCause told_;
  AddressWatch::Subscription subscription_;
};

}  // namespace hbmwire::detail
