// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools {

/// SIGINT and SIGTERM as a descriptor for Wait::cancel_fd; SIGPIPE ignored. The first signal asks
/// the tool to stop, a second one kills it: cleaning up must not be able to hang. One at a time in
/// a process; the handlers stay.
class Interrupt {
 public:
  static Outcome<Interrupt> create();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// True once a signal has come.
  [[nodiscard]] static bool happened() noexcept;

  /// 128 plus the signal's number, as shells have it: 130 after Ctrl-C, 143 after SIGTERM.
  [[nodiscard]] static int exit_code() noexcept;

 private:
  explicit Interrupt(Fd fd) noexcept : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace hbmwire::tools
