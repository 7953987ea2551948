// SPDX-License-Identifier: MIT
#include "endpoint/connect_to.hpp"

#include <utility>

#include "endpoint/cm_meeting.hpp"
#include "endpoint/tcp_meeting.hpp"

namespace hbmwire::detail {

namespace {

Result<std::unique_ptr<Meeting>> dial(const std::shared_ptr<WorkerState>& worker,
                                      std::string_view where, const Wait& wait,
                                      const EndpointOptions& options) {
  if (where.starts_with(kCmScheme)) return CmMeeting::dial(worker, where, wait, options);
  return TcpMeeting::dial(worker, where, wait, options);
}

}  // namespace

Result<std::shared_ptr<EndpointState>> connect_to(const std::shared_ptr<WorkerState>& worker,
                                                  std::string_view where, const Wait& wait,
                                                  const EndpointOptions& options) {
  const WorkerLock lock(*worker);
  HBMWIRE_TRY_ASSIGN(const EndpointOptions all, complete(worker->context, options));
  HBMWIRE_TRY_ASSIGN(const auto meeting, dial(worker, where, wait, all));
  const auto driven = worker->drive(wait, [&] {
    meeting->look_after();
    return meeting->over();
  });
  if (meeting->over()) return meeting->take();
  Error error = meeting->timed_out();
  if (driven.error().code != Errc::timed_out) error.code = driven.error().code;
  // The peer hears, as far as it listens, that nobody waits for it any more.
  meeting->give_up();
  return tl::make_unexpected(error);
}

}  // namespace hbmwire::detail
