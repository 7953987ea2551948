// SPDX-License-Identifier: MIT
#include <pthread.h>

#include <system_error>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"
#include "base/told_cause.hpp"
#include "endpoint/worker_state.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

void run(WorkerState& worker) noexcept {
  const WorkerLock lock(worker);
  ToldCause said;
  while (!worker.stopping) {
    const auto may_sleep = guarded(Stage::complete, [&] { return worker.arm(); });
    if (may_sleep && !*may_sleep) {
      worker.give_way();
      continue;
    }
    const auto slept = guarded(Stage::complete, [&]() -> Result<void> {
      if (!may_sleep) return tl::make_unexpected(may_sleep.error());
      return worker.sleep({Deadline::after(1h), -1});
    });
    if (slept) continue;
    // Nobody asked, so that nobody can be told; what others wait for ends by their deadlines.
    if (said.is_new(slept.error()))
      log_line(LogLevel::warn, [&] { return describe(slept.error()); });
    worker.mutex.unlock();
    std::this_thread::sleep_for(10ms);
    worker.lock();
  }
}

}  // namespace

Result<void> WorkerState::start_thread() {
  try {
    const SignalsBlocked blocked;
    thread = std::make_unique<std::thread>([this] { run(*this); });
    ::pthread_setname_np(thread->native_handle(), "hbmwire-worker");
  } catch (const std::system_error& error) {
    return tl::make_unexpected(thread_failure(Stage::open, error.code().value()));
  }
  return {};
}

void WorkerState::stop_thread() noexcept {
  if (!thread) return;
  {
    const WorkerLock lock(*this);
    stopping = true;
    ++event_count;
  }
  thread->join();
  thread.reset();
}

}  // namespace hbmwire::detail
