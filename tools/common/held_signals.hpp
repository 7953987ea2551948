// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>

namespace hbmwire::tools {

/// Holds the signals that end a tool back (SIGINT, SIGTERM, SIGHUP, SIGQUIT) in the thread that
/// makes it, and in processes that this forks meanwhile; they come when it goes.
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

  /// Lets them come now.
  void release() const noexcept { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace hbmwire::tools
