// SPDX-License-Identifier: MIT
#include "registration/page_changes.hpp"

#include <utility>

#include "base/log.hpp"

namespace hbmwire::detail {

std::shared_ptr<AddressWatch> PageChanges::start(std::function<void()> changed) {
  if (watch_ || failed_) return watch_;
  auto made = AddressWatch::get();
  if (!made) {
    // A shortage is temporary: the next registration tries again.
    failed_ = !is_shortage(made.error());
    if (told_.is_new(made.error())) {
      log_line(LogLevel::warn, [&] {
        return "the application's host memory is registered anew for each use: " +
               describe(made.error());
      });
    }
    return nullptr;
  }
  subscription_ = (*made)->subscribe(std::move(changed));
  watch_ = std::move(*made);
  cursor_ = watch_->now();
  settled_.store(cursor_.settled, std::memory_order_relaxed);
  watching_.store(watch_.get(), std::memory_order_release);
  return watch_;
}

}  // namespace hbmwire::detail
