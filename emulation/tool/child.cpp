// SPDX-License-Identifier: MIT
#include "emulation/tool/child.hpp"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hbmwire::emulation::tool {
namespace {

[[noreturn]] void become(char** command, const std::function<Status()>& prepare) {
  if (const auto prepared = prepare(); !prepared) {
    fmt::print(stderr, "hbmwire emulate: {}\n", prepared.error());
    ::_exit(kExitSetup);
  }
  ::execvp(command[0], command);
  const int error = errno;
  fmt::print(stderr, "hbmwire emulate: cannot run {}: {}\n", command[0], std::strerror(error));
  ::_exit(error == ENOENT ? kExitNotFound : kExitNotExecutable);
}

// Signals of the terminal go to the whole foreground group, which includes COMMAND. The kernel
// marks them as its own.
bool came_from_a_process(const siginfo_t& info) { return info.si_code <= 0; }

}  // namespace

Result<Child> Child::start(char** command, const HeldSignals& held,
                           const std::function<Status()>& prepare) {
  // With an inherited "ignore" the kernel would reap COMMAND before wait() sees how it ended.
  struct sigaction ordinary {};

  ordinary.sa_handler = SIG_DFL;

  struct sigaction inherited {};

  ::sigaction(SIGCHLD, &ordinary, &inherited);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return cannot("fork");
  if (pid == 0) {
    ::sigaction(SIGCHLD, &inherited, nullptr);
    held.release();
    become(command, prepare);
  }
  // A signal of the terminal that came before the fork has reached only this process. wait() would
  // wrongly assume that COMMAND has got it too.
  HeldSignals::pass_on(pid);
  return Child(pid);
}

int Child::wait() const {
  const auto watched = HeldSignals::all();
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_ && WIFSIGNALED(status)) return kExitSignalled + WTERMSIG(status);
    if (ended == pid_) return WEXITSTATUS(status);
    if (ended < 0 && errno != EINTR) return kExitSetup;

    siginfo_t info{};
    const int signal = ::sigwaitinfo(&watched, &info);
    if (signal > 0 && signal != SIGCHLD && came_from_a_process(info)) ::kill(pid_, signal);
  }
}

}  // namespace hbmwire::emulation::tool
