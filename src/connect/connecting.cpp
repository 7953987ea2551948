// SPDX-License-Identifier: MIT
#include "connect/connecting.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/guarded.hpp"
#include "connect/cm_attempt.hpp"
#include "connect/tcp_attempt.hpp"

namespace hbmwire::detail {

namespace {

/// The peer is not there, is full, or let this end go: another attempt may find it otherwise.
bool may_pass(const Error& why) noexcept {
  if (why.code != Errc::peer_failed && why.code != Errc::exhausted && why.code != Errc::timed_out)
    return false;
  switch (why.hint) {
    case Hint::connection_refused:
    case Hint::host_unreachable:
    case Hint::peer_full:
    case Hint::peer_gone:
    case Hint::peer_slow:
      return true;
    default:
      return false;
  }
}

bool by_cm(std::string_view where) noexcept { return where.starts_with(kCmScheme); }

}  // namespace

Connecting::Connecting(const std::shared_ptr<WorkerState>& worker, std::string_view where,
                       const Deadline& until, EndpointOptions options)
    : Task(*worker, until.when()),
      weak_worker_(worker),
      where_(where),
      until_(until),
      options_(std::move(options)) {}

Connecting::~Connecting() {
  forget_name();
  end_attempt();
  if (!endpoint_) return;
  // Nobody has taken it.
  endpoint_->keeps_worker.reset();
  endpoint_->ending.abandon();
}

Result<std::unique_ptr<Connecting>> Connecting::start(const std::shared_ptr<WorkerState>& worker,
                                                      std::string_view where, const Deadline& until,
                                                      const EndpointOptions& options, bool again) {
  HBMWIRE_TRY_ASSIGN(EndpointOptions all, complete(worker->context, options));
  std::unique_ptr<Connecting> task(new Connecting(worker, where, until, std::move(all)));
  if (again && task->options_.retry_connect) {
    const std::chrono::milliseconds left(until.poll_timeout_ms());
    task->pause(WorkerState::Clock::now() + Backoff::before_reconnect(left));
    return task;
  }
  if (const auto begun = task->begin(); !begun)
    task->refused(begun.error(), WorkerState::Clock::now());
  return task;
}

/// Asks for the addresses of the name.
Result<void> Connecting::begin() {
  const std::string_view host_port =
      by_cm(where_) ? std::string_view(where_).substr(kCmScheme.size()) : std::string_view(where_);
  HBMWIRE_TRY_ASSIGN(const HostPort to, split_host_port(host_port));
  HBMWIRE_TRY_ASSIGN(name_, wire::NameLookUp::start(to.host, to.port, false));
  if (name_->over()) return dial();
  HBMWIRE_TRY(worker().sockets.watch(name_->fd(), EPOLLIN, *this));
  name_watched_ = true;
  return {};
}

Result<void> Connecting::dial() {
  const auto worker = weak_worker_.lock();
  if (!worker) {
    return tl::make_unexpected(
        make_error(Errc::cancelled, Stage::connect, "the worker has ended", where_));
  }
  auto addresses = name_->take();
  forget_name();
  if (!addresses) return tl::make_unexpected(addresses.error());
  wire::AddressWalk walk(std::move(*addresses), where_, until_);
  if (by_cm(where_)) {
    HBMWIRE_TRY_ASSIGN(attempt_, CmAttempt::dial(worker, where_, std::move(walk), options_));
  } else {
    HBMWIRE_TRY_ASSIGN(attempt_, TcpAttempt::dial(worker, where_, std::move(walk), options_));
  }
  return {};
}

void Connecting::forget_name() noexcept {
  if (std::exchange(name_watched_, false)) worker().sockets.forget(name_->fd());
  name_.reset();
}

/// The peer hears, as far as it listens, that nobody waits for it any more.
void Connecting::end_attempt() noexcept {
  if (attempt_ && !attempt_->over()) attempt_->give_up();
  attempt_.reset();
}

void Connecting::on_socket() noexcept { look_after(WorkerState::Clock::now()); }

void Connecting::look_after(WorkerState::Clock::time_point at) noexcept {
  if (over()) return;
  // No further attempt begins then.
  if (pauses_until_ && until_.passed()) return give_up(unfinished(Errc::timed_out));
  const auto gone_on = guarded(Stage::connect, [&]() -> Result<void> {
    go_on(at);
    return {};
  });
  if (!gone_on) return give_up(gone_on.error());
  if (!over() && until_.passed()) give_up(unfinished(Errc::timed_out));
}

void Connecting::go_on(WorkerState::Clock::time_point at) {
  if (attempt_) {
    attempt_->look_after();
    if (!attempt_->over()) return;
    auto made = attempt_->take();
    attempt_.reset();
    if (!made) return refused(made.error(), at);
    endpoint_ = std::move(*made);
    endpoint_->dialed = true;
    return succeed();
  }
  if (pauses_until_ && at < *pauses_until_) return;
  if (!pauses_until_ && name_ && !name_->over()) return;
  const auto begun = pauses_until_ ? begin() : dial();
  pauses_until_.reset();
  set_due(until_.when());
  if (!begun) refused(begun.error(), at);
}

void Connecting::refused(const Error& why, WorkerState::Clock::time_point at) noexcept {
  forget_name();
  end_attempt();
  if (!options_.retry_connect || !may_pass(why) || until_.passed()) return fail(why);
  last_refusal_ = why;
  pause(at + backoff_.next());
}

void Connecting::pause(WorkerState::Clock::time_point until) noexcept {
  pauses_until_ = until;
  set_due(std::min(until, until_.when()));
}

Error Connecting::unfinished(Errc code) const noexcept {
  if (pauses_until_ && last_refusal_ && code == Errc::timed_out) return *last_refusal_;
  Error error = attempt_ ? attempt_->timed_out()
                : name_  ? make_error(code, Stage::connect, "no answer from the name service",
                                      where_, Hint::name_resolution)
                         : make_error(code, Stage::connect, "waiting to try again", where_);
  error.code = code;
  return error;
}

void Connecting::give_up(const Error& why) noexcept {
  forget_name();
  end_attempt();
  fail(why);
}

}  // namespace hbmwire::detail
