// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools {

/// Turns SIGINT and SIGTERM into a descriptor for Wait::cancel_fd, and ignores SIGPIPE. The first
/// signal asks the tool to stop. The second one kills it, so that a cleanup that hangs cannot hold
/// the user. A process has one such object at a time; the handlers stay installed.
class Interrupt {
 public:
  static Outcome<Interrupt> create();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// True once a signal has come.
  [[nodiscard]] static bool happened() noexcept;

  /// 128 plus the number of the signal, as in shells: 130 after Ctrl-C, 143 after SIGTERM.
  [[nodiscard]] static int exit_code() noexcept;

 private:
  explicit Interrupt(Fd fd) noexcept : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace hbmwire::tools
