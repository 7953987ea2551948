// SPDX-License-Identifier: MIT
#include "tools/common/interrupt.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace hbmwire::tools {
namespace {

// Variables for the signal handler, lock-free and therefore safe there.
std::atomic<int> event_fd{-1};
std::atomic<int> signal_number{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  const int saved = errno;
  signal_number.store(number);
  const std::uint64_t one = 1;
  // A handler cannot react to a failure. If the eventfd is full, it is already readable.
  [[maybe_unused]] const auto written = ::write(event_fd.load(), &one, sizeof one);
  errno = saved;
}

bool handle(int number) {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  // RESETHAND: the second signal kills the process. RESTART: interrupted calls continue, except our
  // own waits.
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  return ::sigaction(number, &action, nullptr) == 0;
}

}  // namespace

Outcome<Interrupt> Interrupt::create() {
  // Not a mistake of the command line, whatever the stage says.
  const auto failed = [](const char* call, int error_number) {
    Failure failure(system_error(Stage::configure, call, error_number));
    failure.exit_code = kExitFailed;
    return tl::make_unexpected(std::move(failure));
  };
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return failed("eventfd", errno);
  event_fd.store(fd.get());
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  if (!handle(SIGINT) || !handle(SIGTERM) || ::sigaction(SIGPIPE, &ignore, nullptr) != 0) {
    return failed("sigaction", errno);
  }
  return Interrupt(std::move(fd));
}

bool Interrupt::happened() noexcept { return signal_number.load() != 0; }

int Interrupt::exit_code() noexcept { return 128 + (happened() ? signal_number.load() : SIGINT); }

}  // namespace hbmwire::tools
