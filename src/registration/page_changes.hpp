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

/// One registration cache's use of the process's AddressWatch: it begins with the first host memory
/// that the cache registers, and remembers up to which change the cache has been settled. The
/// functions above the gap need no lock; those below need the cache's.
class PageChanges {
 public:
  /// Whether the cache knows of each change so far. Each hit asks.
  [[nodiscard]] bool is_settled() const noexcept {
    const AddressWatch* const watch = watching_.load(std::memory_order_acquire);
    return watch == nullptr || watch->changed() == settled_.load(std::memory_order_acquire);
  }

  /// By one system call.
  [[nodiscard]] bool is_unmapping_under_way() const noexcept {
    const AddressWatch* const watch = watching_.load(std::memory_order_acquire);
    return watch != nullptr && watch->unmapping_under_way();
  }

  /// As AddressWatch::being_discarded().
  [[nodiscard]] bool is_being_discarded(AddressRange range) const noexcept {
    const AddressWatch* const watch = watching_.load(std::memory_order_acquire);
    return watch != nullptr && watch->being_discarded(range);
  }

  /// Waits for a call of `changed` that is going on: hold no lock over it that this call takes.
  void stop() noexcept { subscription_.reset(); }

  /// The watch, by which `changed` is called soon after pages have changed, from another thread.
  /// Null: the kernel has none for this process, which the log tells once for each cause.
  std::shared_ptr<AddressWatch> start(std::function<void()> changed);

  /// Calls `gone(range)` for each change since the last call.
  template <class Gone>
  void settle(Gone gone) noexcept {
    if (!watch_ || is_settled()) return;
    watch_->take(cursor_, gone);
    settled_.store(cursor_.settled, std::memory_order_release);
  }

 private:
  // Hits read these two.
  std::atomic<const AddressWatch*> watching_{nullptr};
  std::atomic<std::uint64_t> settled_{0};  // AddressWatch::changed() as of the last settle()

  std::shared_ptr<AddressWatch> watch_;
  AddressWatch::Cursor cursor_;
  bool failed_ = false;  // for good
  ToldCause told_;
  AddressWatch::Subscription subscription_;
};

}  // namespace hbmwire::detail
