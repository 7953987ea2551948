// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"

namespace hbmwire::detail {

/// Waits for `time`, but no longer than `wait` allows. Errors: timed_out, cancelled.
inline Result<void> pause_for(std::chrono::milliseconds time, const Wait& wait, const char* what,
                              std::string_view subject) {
  const Deadline over = Deadline::after(time);
  const Deadline until(std::min(over.when(), wait.deadline.when()));
  for (;;) {
    pollfd cancel{wait.cancel_fd, POLLIN, 0};  // poll(2) looks past a descriptor of -1
    const int ready = ::poll(&cancel, 1, until.poll_timeout_ms());
    if (ready < 0 && errno != EINTR)
      return tl::make_unexpected(system_error(Stage::connect, "poll", errno, subject));
    if (ready > 0)
      return tl::make_unexpected(make_error(Errc::cancelled, Stage::connect, what, subject));
    if (over.passed()) return {};
    if (wait.deadline.passed())
      return tl::make_unexpected(make_error(Errc::timed_out, Stage::connect, what, subject));
  }
}

}  // namespace hbmwire::detail
