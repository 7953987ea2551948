// SPDX-License-Identifier: MIT
#include "emulation/common/self_signal.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

namespace hbmwire::emulation {
namespace {

void sleep_for(std::uint64_t ns) {
  timespec left{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  while (::syscall(SYS_nanosleep, &left, &left) != 0) {
  }
}

/// The code of the child. It makes only bare system calls, because other threads of the copied
/// process may have held any lock, including those of a sanitizer's wrappers.
[[noreturn]] void continue_later(pid_t stopped, std::uint64_t for_ns) {
  // Kills the child when the thread that made it ends. That thread is stopped with all others.
  ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0UL, 0UL, 0UL);
  const auto is_child = [stopped] { return ::syscall(SYS_getppid) == stopped; };
  if (!is_child()) ::syscall(SYS_exit_group, 0);
  // A descriptor may have a meaning (for example that the process is alive), so the child must not
  // keep it.
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  constexpr std::uint64_t kAgainNs = 10'000'000;
  sleep_for(for_ns);
  // Signals repeatedly until it is killed, because the first signal may come before the process has
  // stopped.
  while (is_child()) {
    ::syscall(SYS_kill, stopped, SIGCONT);
    sleep_for(kAgainNs);
  }
  for (;;) ::syscall(SYS_exit_group, 0);
}

}  // namespace

void kill_this_process() noexcept {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

void stop_this_process(std::uint64_t for_ns) noexcept {
  const pid_t self = ::getpid();
  long child = -1;
  if (for_ns != 0) {
    // Not fork(): no handlers run, and without a signal for its end the application's wait() does
    // not see the child.
    child = ::syscall(SYS_clone, 0UL, 0UL, 0UL, 0UL, 0UL);
    if (child == 0) continue_later(self, for_ns);
    if (child < 0) return;  // without the child the process would not be continued
  }
  // The signal goes to this thread, because then the thread stops before the call returns.
  ::syscall(SYS_tgkill, self, ::syscall(SYS_gettid), SIGSTOP);
  if (child < 0) return;
  ::kill(static_cast<pid_t>(child), SIGKILL);
  ::waitpid(static_cast<pid_t>(child), nullptr, static_cast<int>(__WCLONE));
}

}  // namespace hbmwire::emulation
