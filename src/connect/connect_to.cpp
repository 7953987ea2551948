// SPDX-License-Identifier: MIT
#include "connect/connect_to.hpp"

#include <utility>

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

}  // namespace

Result<std::shared_ptr<EndpointState>> connect_to(const std::shared_ptr<WorkerState>& worker,
                                                  std::string_view where, const Wait& wait,
                                                  const EndpointOptions& options) {
  const WorkerLock lock(*worker);
  HBMWIRE_TRY_ASSIGN(const EndpointOptions all, complete(worker->context, options));
  HBMWIRE_TRY_ASSIGN(const auto attempt, dial(worker, where, wait, all));
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

}  // namespace hbmwire::detail
