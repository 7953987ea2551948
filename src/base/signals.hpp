// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include <csignal>

namespace hbmwire {

/// Blocks all signals of the calling thread during its life. A thread inherits the signal mask of
/// its creator: a thread that the library starts meanwhile takes none of the application's signals.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace hbmwire
