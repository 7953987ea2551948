// SPDX-License-Identifier: MIT
#include "emulation/common/fault_step.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace hbmwire::emulation {
namespace {

struct Trap {
  std::atomic<bool> armed{false};
  std::string step;
  std::atomic<std::int64_t> left{0};
  int signal = 0;
};

Trap& trap() {
  static auto* const kOnly = new Trap;
  return *kOnly;
}

}  // namespace

void StepTrap::set(std::string_view step, std::int64_t nth, int signal) {
  trap().armed.store(false);
  trap().step = step;
  trap().left.store(nth);
  trap().signal = signal;
  trap().armed.store(!step.empty());
  FaultPlan::watch_steps();
}

void StepTrap::arrive(std::string_view step) noexcept {
  Trap& set = trap();
  if (!set.armed.load() || set.step != step || set.left.fetch_sub(1) != 1) return;
  set.armed.store(false);
  // The signal goes to this thread, because then SIGSTOP and SIGKILL take effect before the call
  // returns.
  ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), set.signal);
}

void come_to_step(const char* step) noexcept {
  StepTrap::arrive(step);
  FaultPlan::of_this_process().on_step(step);
}

}  // namespace hbmwire::emulation
