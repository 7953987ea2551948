// SPDX-License-Identifier: MIT
#include "group_call.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>
#include <utility>

#include "errors.hpp"

namespace hbmwire::python {

namespace {

Fd make_event() {
  Fd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!event) raise(system_error(Stage::open, "eventfd", errno));
  return event;
}

/// Keeps the program's signals out of threads that begin meanwhile, so that a signal interrupts the
/// thread that waits.
class NoSignals {
 public:
  NoSignals() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

bool is_readable_by(int fd, const Deadline& deadline) noexcept {
  pollfd asked{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&asked, 1, deadline.poll_timeout_ms()) > 0;
}

Error out_of_memory() noexcept {
  return make_error(Errc::exhausted, Stage::complete, "allocate memory", {},
                    Hint::host_memory_exhausted);
}

}  // namespace

GroupCall::GroupCall(SharedWorker worker, std::shared_ptr<GroupHold> hold, const Deadline& deadline,
                     Body body)
    : Part(worker),
      hold_(std::move(hold)),
      state_(new State{.body = std::move(body), .cancel = make_event(), .over = make_event()}),
      process_(::getpid()) {
  state_->used.emplace(std::move(worker));
  try {
    const NoSignals none;
    thread_ = std::thread([state = state_.get(), deadline] { state->run(deadline); });
  } catch (const std::system_error&) {
    raise(make_error(Errc::exhausted, Stage::complete, "start a thread", {}, Hint::process_limit));
  }
  if (hold_) hold_->calls.insert(this);
}

GroupCall::~GroupCall() {
  if (hold_) hold_->calls.erase(this);
  if (process_ != ::getpid()) {
    thread_.detach();  // a child by fork(2) does not have it
    return;
  }
  cancel();
  const WithoutGil released;
  thread_.join();
}

void GroupCall::State::run(const Deadline& deadline) noexcept {
  try {
    result.emplace(body(Wait{deadline, cancel.get()}));
  } catch (const std::bad_alloc&) {
    result.emplace(tl::make_unexpected(out_of_memory()));
  }
  ::eventfd_write(over.get(), 1);
}

void GroupCall::State::wait_over() const noexcept {
  const WithoutGil released;
  while (!is_readable_by(over.get(), Deadline::never())) continue;
}

void GroupCall::cancel() noexcept { ::eventfd_write(state_->cancel.get(), 1); }

void GroupCall::end() noexcept {
  if (process_ != ::getpid()) return;
  const std::shared_ptr<State> state = state_;
  state->is_closed = true;
  cancel();
  state->wait_over();
  if (state->is_taken) return;
  // The result may be a group that was just made, which keeps the worker, too.
  state->result.reset();
  state->used.reset();
}

py::object GroupCall::take() {
  state_->wait_over();
  if (state_->is_closed) refuse("the worker is closed");
  state_->is_taken = true;
  const Result<Finish> result = std::move(*state_->result);
  if (!result) raise(result.error());
  return (*result)();
}

py::object GroupCall::wait() {
  const auto is_over = [&](const Wait& step) { return is_readable_by(fd(), step.deadline); };
  while (!in_step(Deadline::never(), is_over)) worker()->settle_some();
  worker()->settle_some();
  return take();
}

}  // namespace hbmwire::python
