// SPDX-License-Identifier: MIT
#include "emulation/tool/held_signals.hpp"

namespace hbmwire::emulation::tool {
namespace {

constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

bool is_ignored(int signal) noexcept {
  struct sigaction action {};

  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

HeldSignals::HeldSignals() {
  const sigset_t held = all();
  ::sigprocmask(SIG_BLOCK, &held, &before_);
}

void HeldSignals::release() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

sigset_t HeldSignals::all() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : kEnds) ::sigaddset(&set, signal);
  for (const int signal : {SIGCHLD, SIGXFSZ}) ::sigaddset(&set, signal);
  return set;
}

void HeldSignals::pass_on(pid_t child) {
  constexpr timespec kAtOnce{};
  for (const int signal : kEnds) {
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, signal);
    if (::sigtimedwait(&one, nullptr, &kAtOnce) == signal) ::kill(child, signal);
  }
}

int held_end() noexcept {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return 0;
  for (const int signal : kEnds) {
    // The kernel keeps a blocked signal even if it is ignored, as with nohup(1).
    if (::sigismember(&pending, signal) == 1 && !is_ignored(signal)) return signal;
  }
  return 0;
}

}  // namespace hbmwire::emulation::tool
