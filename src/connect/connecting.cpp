// SPDX-License-Identifier: MIT
#include "connect/connecting.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/guarded.hpp"
#include "base/probes.hpp"
#include "connect/cm_attempt.hpp"
#include "connect/link_timing.hpp"
#include "connect/tcp_attempt.hpp"
#include "counters/store.hpp"
#include "wire/authentication.hpp"

namespace hbmwire::detail {

namespace {

/// Whether the reason may pass: the peer is not there, is full, or let this end go. Then another
/// attempt may succeed.
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
    : Task(*worker, until.when(), "connect"),
      weak_worker_(worker),
      where_(where),
      until_(until),
      options_(std::move(options)) {}

Connecting::~Connecting() {
  forget_name();
  end_attempt();
  if (!endpoint_) return;
  // The program has not taken the endpoint.
  endpoint_->keeps_worker.reset();
  endpoint_->ending.abandon();
}

Result<std::unique_ptr<Connecting>> Connecting::start(const std::shared_ptr<WorkerState>& worker,
                                                      std::string_view where, const Deadline& until,
                                                      const EndpointOptions& options, bool again) {
  HBMWIRE_TRY_ASSIGN(EndpointOptions all, complete(worker->context, options));
  HBMWIRE_TRY(check_options(all, *worker));
  HBMWIRE_TRY(wire::check_key(all.pre_shared_key));
  if (by_cm(where)) HBMWIRE_TRY(check_managed(all.link));
  std::unique_ptr<Connecting> task(new Connecting(worker, where, until, std::move(all)));
  const auto at = WorkerState::Clock::now();
  const std::chrono::milliseconds left(until.poll_timeout_ms());
  if (again && task->options_.retry_connect && left > std::chrono::milliseconds(0)) {
    task->pause(at + Backoff::before_reconnect(left));
  } else if (const auto begun = task->begin(at); !begun) {
    task->refused(begun.error(), at);
  }
  return task;
}

/// Begins to look up the addresses of the name.
Result<void> Connecting::begin(WorkerState::Clock::time_point at) {
  const std::string_view host_port =
      by_cm(where_) ? std::string_view(where_).substr(kCmScheme.size()) : std::string_view(where_);
  HBMWIRE_TRY_ASSIGN(const HostPort to, split_host_port(host_port));
  name_ = wire::NameLookUp::make(to.host, to.port, /*passive=*/false);
  return name_->over() ? dial() : look_up(at);
}

/// Begins the look-up, if not too many are under way in this process. Each look-up takes a thread
/// and a descriptor, and a silent name server keeps them long. Look-ups of other workers do not
/// tell this one when they end, so it tries again after a while.
Result<void> Connecting::look_up(WorkerState::Clock::time_point at) {
  constexpr unsigned kMostOfProcess = 8;
  constexpr auto kLookAgain = std::chrono::milliseconds(10);
  HBMWIRE_TRY_ASSIGN(const bool begun, name_->begin(kMostOfProcess));
  set_due(begun ? until_.when() : std::min(at + kLookAgain, until_.when()));
  if (!begun) return {};
  HBMWIRE_TRY(worker().sockets.watch(name_->fd(), EPOLLIN, *this));
  name_watched_ = true;
  return {};
}

/// Begins a handshake with one of the addresses that the look-up has found.
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

/// Tells the peer, if it listens, that this end no longer waits for it.
void Connecting::end_attempt() noexcept {
  if (attempt_ && !attempt_->over() && !worker().made.is_inherited()) attempt_->give_up();
  attempt_.reset();
}

void Connecting::on_socket() noexcept { look_after(WorkerState::Clock::now()); }

void Connecting::look_after(WorkerState::Clock::time_point at) noexcept {
  if (over()) return;
  const auto gone_on = guarded(Stage::connect, [&]() -> Result<void> {
    go_on(at);
    return {};
  });
  if (!gone_on) give_up(gone_on.error());
}

/// Does the next step, if it is due; at the deadline gives up.
void Connecting::go_on(WorkerState::Clock::time_point at) {
  const bool late = at >= until_.when();
  if (attempt_) {
    attempt_->look_after();
    if (attempt_->over()) return end(at);
  } else if (pauses_until_) {
    // A reconnect makes at least one attempt, even if its first pause took all the time.
    if (!late || !last_refusal_) {
      if (at >= *pauses_until_) try_again(at);
      return;
    }
  } else if (name_->over()) {
    // The addresses are known. Dialing waits until the worker may begin one more connection.
    if (!late) return try_again(at);
  } else if (!late && !name_watched_) {
    if (const auto begun = look_up(at); !begun) return refused(begun.error(), at);
  }
  if (late) give_up(unfinished(Errc::timed_out));
}

/// Dials, if the worker may begin one more. A dial makes queue pairs, which takes a NIC's driver
/// long.
void Connecting::try_again(WorkerState::Clock::time_point at) {
  if (!worker().by_clock.may_begin()) return set_due(at);
  set_due(until_.when());
  const auto begun = pauses_until_ ? begin(at) : dial();
  pauses_until_.reset();
  if (!begun) refused(begun.error(), at);
}

/// The handshake is over.
void Connecting::end(WorkerState::Clock::time_point at) {
  auto made = attempt_->take();
  attempt_.reset();
  if (!made) return refused(made.error(), at);
  endpoint_ = std::move(*made);
  succeed();
}

/// An attempt has failed: pauses before another one, or fails for good.
void Connecting::refused(const Error& why, WorkerState::Clock::time_point at) noexcept {
  forget_name();
  end_attempt();
  if (!options_.retry_connect || !may_pass(why) || at >= until_.when()) return fail_for_good(why);
  last_refusal_ = why;
  counters::Store::get().process().retries.add_shared(1);
  pause(at + backoff_.next());
}

void Connecting::pause(WorkerState::Clock::time_point until) noexcept {
  pauses_until_ = until;
  set_due(std::min(until, until_.when()));
}

Error Connecting::unfinished(Errc code) const noexcept {
  if (pauses_until_ && last_refusal_ && code == Errc::timed_out) return *last_refusal_;
  Error error = make_error(code, Stage::connect, "waiting to try again", where_);
  if (attempt_) {
    error = attempt_->timed_out();
  } else if (name_ && name_->over()) {
    error = make_error(code, Stage::connect, "waiting for others that begin to connect", where_);
  } else if (name_) {
    error = make_error(code, Stage::connect, "no answer from the name service", where_,
                       Hint::name_resolution);
  }
  error.code = code;
  return error;
}

void Connecting::give_up(const Error& why) noexcept {
  const bool called_off = why.code == Errc::timed_out || why.code == Errc::cancelled;
  const Error told = called_off ? unfinished(why.code) : why;
  forget_name();
  end_attempt();
  fail_for_good(told);
}

void Connecting::fail_for_good(const Error& why) noexcept {
  if (!over()) HBMWIRE_PROBE4(connect, 0U, where_.c_str(), "", static_cast<int>(why.code));
  fail(why);
}

}  // namespace hbmwire::detail
