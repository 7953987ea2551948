// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>

namespace hbmwire::test {

/// Ends the process, with the name of its present call, if this call does not return in time. A
/// call may wait 10 s for a lock, and longer on a busy machine.
class Watchdog {
 public:
  static constexpr unsigned kSeconds = 45;

  Watchdog() { ::signal(SIGALRM, bark); }

  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  ~Watchdog() { ::alarm(0); }

  /// Names the call that begins, and starts its time.
  static void enter(const char* call) {
    call_ = call;
    ::alarm(kSeconds);
  }

 private:
  static void bark(int /*signal*/) {
    constexpr const char* kText = "does not return: ";
    [[maybe_unused]] ssize_t count = ::write(2, kText, std::strlen(kText));
    count = ::write(2, call_, std::strlen(call_));
    count = ::write(2, "\n", 1);
    ::abort();
  }

  static inline const char* volatile call_ = "";
};

/// Runs a call that must return, under the process's Watchdog.
template <typename Call>
auto bounded(const char* name, Call call) {
  Watchdog::enter(name);
  return call();
}

}  // namespace hbmwire::test
