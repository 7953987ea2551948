// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include "hbmwire/error.hpp"

namespace hbmwire::memory::host {

/// A thread of the library, which takes none of the application's signals. It uses
/// pthread_create(3) directly, because a std::thread frees memory when it ends. The thread that
/// reads the events of unmapped memory must not do that.
class QuietThread {
 public:
  QuietThread() noexcept = default;
  QuietThread(const QuietThread&) = delete;
  QuietThread& operator=(const QuietThread&) = delete;
  /// Call join() or detach() first.
  ~QuietThread() = default;

  /// Call it once. Errors: Stage::register_memory.
  Result<void> start(void* (*body)(void*), void* argument);

  [[nodiscard]] bool runs() const noexcept { return runs_; }

  /// Whether the calling thread is this one.
  [[nodiscard]] bool is_this() const noexcept;

  void join() noexcept;
  void detach() noexcept;

 private:
  pthread_t thread_{};
  bool runs_ = false;
};

}  // namespace hbmwire::memory::host
