// SPDX-License-Identifier: MIT
#include "connect/connect_to.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "connect/backoff.hpp"
#include "connect/cm_attempt.hpp"
#include "connect/tcp_attempt.hpp"

namespace hbmwire::detail {

namespace {

Result<std::unique_ptr<ConnectionAttempt>> dial(const std::shared_ptr<WorkerState>& worker,
                                                std::string_view where, const Wait& wait,
                                                const EndpointOptions& options) {
  if (where.starts_with(kCmScheme)) return CmAttempt::dial(worker, where, wait, options);
  return TcpAttempt::dial(worker, where, wait, options);
}

Result<std::shared_ptr<EndpointState>> connect_once(const std::shared_ptr<WorkerState>& worker,
                                                    std::string_view where, const Wait& wait,
                                                    const EndpointOptions& options) {
  HBMWIRE_TRY_ASSIGN(const auto attempt, dial(worker, where, wait, options));
  const auto driven = worker->drive(wait, [&] {
    attempt->look_after();
    return attempt->over();
  });
  if (attempt->over()) return attempt->take();
  Error error = attempt->timed_out();
  if (driven.error().code != Errc::timed_out) error.code = driven.error().code;
  // The peer hears, as far as it listens, that nobody waits for it any more.
  attempt->give_up();
  return tl::make_unexpected(error);
}

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

/// Drives the worker meanwhile. Errors: cancelled.
Result<void> pause(WorkerState& worker, const Wait& wait, std::chrono::nanoseconds time,
                   std::string_view where) {
  const std::chrono::milliseconds left(wait.deadline.poll_timeout_ms());
  const auto never = [] { return false; };
  const auto paused =
      worker.drive({std::min<std::chrono::nanoseconds>(time, left), wait.cancel_fd}, never);
  if (paused.error().code == Errc::timed_out) return {};
  if (paused.error().code != Errc::cancelled) return paused;
  return tl::make_unexpected(
      make_error(Errc::cancelled, Stage::connect, "waiting to try again", where));
}

}  // namespace

Result<std::shared_ptr<EndpointState>> connect_to(const std::shared_ptr<WorkerState>& worker,
                                                  std::string_view where, const Wait& wait,
                                                  const EndpointOptions& options, bool again) {
  const WorkerLock lock(*worker);
  HBMWIRE_TRY_ASSIGN(const EndpointOptions all, complete(worker->context, options));
  if (again && all.retry_connect) {
    const std::chrono::milliseconds left(wait.deadline.poll_timeout_ms());
    HBMWIRE_TRY(pause(*worker, wait, Backoff::before_reconnect(left), where));
  }
  Backoff backoff;
  while (true) {
    auto endpoint = connect_once(worker, where, wait, all);
    if (endpoint || !all.retry_connect || !may_pass(endpoint.error())) return endpoint;
    if (wait.deadline.passed()) return endpoint;
    HBMWIRE_TRY(pause(*worker, wait, backoff.next(), where));
    if (wait.deadline.passed()) return endpoint;
  }
}

}  // namespace hbmwire::detail
