// SPDX-License-Identifier: MIT
#include "memory/host/quiet_thread.hpp"

#include "base/signals.hpp"
#include "base/thread_failure.hpp"

namespace hbmwire::memory::host {

Result<void> QuietThread::start(void* (*body)(void*), void* argument) {
  const SignalsBlocked blocked;
  const int error = ::pthread_create(&thread_, nullptr, body, argument);
  if (error != 0) return tl::make_unexpected(thread_failure(Stage::register_memory, error));
  runs_ = true;
  return {};
}

bool QuietThread::is_this() const noexcept {
  return runs_ && ::pthread_equal(thread_, ::pthread_self()) != 0;
}

void QuietThread::join() noexcept {
  ::pthread_join(thread_, nullptr);
  runs_ = false;
}

void QuietThread::detach() noexcept {
  ::pthread_detach(thread_);
  runs_ = false;
}

}  // namespace hbmwire::memory::host
