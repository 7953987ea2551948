// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>

namespace hbmwire::tools {

/// Blocks the signals that end a tool (SIGINT, SIGTERM, SIGHUP, SIGQUIT) in the current thread, and
/// in processes that it forks meanwhile. Pending signals are delivered when this object is
/// destroyed.
class HeldSignals {
 public:
  HeldSignals() noexcept {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&held, signal);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }

  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  ~HeldSignals() { release(); }

  /// Delivers pending signals now.
  void release() const noexcept { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace hbmwire::tools
