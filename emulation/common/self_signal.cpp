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

/// The child's whole life. Only bare system calls: other threads of the process that it is a copy
/// of may have held any lock, of what a sanitizer puts around functions too.
[[noreturn]] void continue_later(pid_t stopped, std::uint64_t for_ns) {
  ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0UL, 0UL,
            0UL);  // of the thread that made it, which is in here too
  const auto is_child = [stopped] { return ::syscall(SYS_getppid) == stopped; };
  if (!is_child()) ::syscall(SYS_exit_group, 0);
  // What a descriptor stands for (that the process lives, say) is not for the child to keep.
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  constexpr std::uint64_t kAgainNs = 10'000'000;
  sleep_for(for_ns);
  // Again and again until it is killed, as the first may come before the process has stopped.
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
    // Not fork(): no handlers run, and with no signal for its end the application's wait() does not
    // see it.
    child = ::syscall(SYS_clone, 0UL, 0UL, 0UL, 0UL, 0UL);
    if (child == 0) continue_later(self, for_ns);
    if (child < 0) return;  // nobody would continue it
  }
  // To this thread: then it has stopped before the call returns.
  ::syscall(SYS_tgkill, self, ::syscall(SYS_gettid), SIGSTOP);
  if (child < 0) return;
  ::kill(static_cast<pid_t>(child), SIGKILL);
  ::waitpid(static_cast<pid_t>(child), nullptr, static_cast<int>(__WCLONE));
}

}  // namespace hbmwire::emulation
