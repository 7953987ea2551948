// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include "hbmwire/error.hpp"

namespace hbmwire::memory::host {

/// A thread of ours in a process of somebody else: it takes none of the process's signals. Of
/// pthread_create(3) itself, since a std::thread frees memory as it ends, and whoever reads the
/// events of unmapped memory may not.
class QuietThread {
 public:
  QuietThread() noexcept = default;
  QuietThread(const QuietThread&) = delete;
  QuietThread& operator=(const QuietThread&) = delete;
  /// Must have been joined or detached.
  ~QuietThread() = default;

  /// Once. Errors: Stage::register_memory.
  Result<void> start(void* (*body)(void*), void* argument);

  [[nodiscard]] bool runs() const noexcept { return runs_; }

  /// Whether it is the one that asks.
  [[nodiscard]] bool is_this() const noexcept;

  void join() noexcept;
  void detach() noexcept;

 private:
  pthread_t thread_{};
  bool runs_ = false;
};

}  // namespace hbmwire::memory::host
